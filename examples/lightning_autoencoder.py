"""Train an autoencoder with Lightning: validation, a checkpoint, clipping, a schedule."""

import argparse
import tempfile

import checkpoints
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(32, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 4)
        )
        self.decoder = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 32))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        print(f"step {self.global_step} loss {loss.item():.6f}")
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        self.log("val_loss", nn.functional.mse_loss(self.decoder(self.encoder(x)), x))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)]


class Position(L.Callback):
    """Keep in Lightning's checkpoints what else a script is to go on with."""

    def state_dict(self):
        return {name: part.state_dict() for name, part in checkpoints.BESIDE.items()}

    def load_state_dict(self, state):
        for name, part in checkpoints.BESIDE.items():
            part.load_state_dict(state[name])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    L.seed_everything(args.seed, verbose=False)

    data = TensorDataset(torch.randn(128, 8) @ torch.randn(8, 32))
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [Position()]
        if args.checkpoint:
            callbacks.append(
                L.pytorch.callbacks.ModelCheckpoint(
                    args.checkpoint, every_n_train_steps=args.save_every, save_last=True
                )
            )
        trainer = L.Trainer(
            callbacks=callbacks,
            max_steps=args.steps,
            accelerator="cpu",
            precision=args.precision,
            default_root_dir=folder,
            logger=False,
            gradient_clip_val=0.5,
            accumulate_grad_batches=2,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(
            AutoEncoder(),
            DataLoader(data, 16, shuffle=True),
            DataLoader(data, 64),
            ckpt_path="last" if args.resume else None,
        )
        print(f"validation {trainer.callback_metrics['val_loss'].item():.6f}")


if __name__ == "__main__":
    main()
