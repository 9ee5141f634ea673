"""Save a checkpoint as training goes; on a spike of the loss, go back to it and carry on."""

import argparse
import os
import tempfile

import torch
from torch import nn


def save(path, model, optimizer, scheduler, step):
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "rng": torch.get_rng_state(),
            "step": step,
        },
        path,
    )


def load(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    torch.set_rng_state(checkpoint["rng"])
    return checkpoint["step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=4)
    parser.add_argument("--spike-at", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", help="where it is written; nowhere that stays by default")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)
    spikes = 1
    with tempfile.TemporaryDirectory() as folder:
        path = args.checkpoint or os.path.join(folder, "checkpoint.pt")
        step = load(path, model, optimizer, scheduler) if args.resume else 0
        while step < args.steps:
            x = torch.randn(16, 8)
            if step == args.spike_at and spikes:
                x = x * 100  # a bad batch
            loss = nn.functional.mse_loss(model(x), x.flip(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            print(f"step {step} loss {loss.item():.6f}")
            if loss.item() > 50 and spikes and os.path.exists(path):
                spikes -= 1
                step = load(path, model, optimizer, scheduler)
                print(f"back to step {step}")
            elif step % args.save_every == 0:
                save(path, model, optimizer, scheduler, step)


if __name__ == "__main__":
    main()
