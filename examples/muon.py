"""Two optimizers over one model: Muon for its matrices, AdamW for the rest, one schedule each."""

import argparse

import checkpoints
import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True, norm_first=True),
        num_layers=2,
        enable_nested_tensor=False,
    )
    model.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(8))
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    optimizers = [
        torch.optim.Muon(matrices, lr=1e-2),
        torch.optim.AdamW(others, lr=torch.tensor(1e-3), capturable=False, foreach=False),
    ]
    schedulers = [torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=5) for o in optimizers]
    parts = {f"optimizer {i}": each for i, each in enumerate(optimizers)}
    parts |= {f"scheduler {i}": each for i, each in enumerate(schedulers)}
    first = checkpoints.load(args, model=model, **parts)
    for step in range(first, args.steps):
        x = torch.randn(4, 8, 32)
        loss = nn.functional.mse_loss(model(x, mask=model.mask), x.cumsum(1).tanh())
        loss.backward()
        for optimizer, scheduler in zip(optimizers, schedulers):
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, **parts)


if __name__ == "__main__":
    main()
