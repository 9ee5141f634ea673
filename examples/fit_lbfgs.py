"""Fit a curve with L-BFGS: the optimizer calls the model itself, through a closure."""

import argparse

import checkpoints
import torch
from torch import nn


class Curve(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.register_buffer("mean", y.mean())
        self.register_buffer("std", x.std())
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x / self.std) + self.mean


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    x = torch.linspace(-3, 3, 128).unsqueeze(1)
    y = torch.sin(2 * x) + 0.1 * torch.randn_like(x)
    model = Curve(x, y)
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=0.5, max_iter=6, history_size=4, line_search_fn="strong_wolfe"
    )

    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
