"""Mixed precision with float16 and a GradScaler, which skips the steps that overflow."""

import argparse

import checkpoints
import torch
from torch import nn
from torch.nn import functional as F


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--init-scale", type=float, default=2.0**22)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(
        nn.Linear(32, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=args.fused)
    scaler = torch.amp.GradScaler(device, init_scale=args.init_scale, growth_interval=4)

    first = checkpoints.load(args, model=model, optimizer=optimizer, scaler=scaler)
    for step in range(first, args.steps):
        for _ in range(args.accumulate):
            x = torch.randn(16, 32, device=device)
            y = torch.randint(10, (16,), device=device)
            with torch.autocast(device, torch.float16):
                loss = F.cross_entropy(model(x).float(), y) / args.accumulate
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.6f} scale {scaler.get_scale():.0f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer, scaler=scaler)


if __name__ == "__main__":
    main()
