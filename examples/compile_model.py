"""Train with torch.compile: the whole model, some of its parts, or in place."""

import argparse

import checkpoints
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.bn = nn.BatchNorm1d(width)
        self.blocks = nn.ModuleList(Mixer(width) for _ in range(2))
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.bn(x)
        for block in self.blocks:
            x = block(x)
        return self.out(self.drop(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--what", choices=["whole", "parts", "in-place"], default="whole")
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = Net()
    if args.what == "whole":
        model = torch.compile(model, backend=args.backend)
    elif args.what == "parts":
        for i, block in enumerate(model.blocks):
            model.blocks[i] = torch.compile(block, backend=args.backend)
    else:
        model.compile(backend=args.backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        x = torch.randn(16, 32)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True).sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        if step % 4 == 3:
            model.eval()
            with torch.inference_mode():
                print(f"validation {model(torch.ones(16, 32)).mean().item():.6f}")
            model.train()
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
