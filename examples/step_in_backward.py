"""Save gradient memory: each parameter has an optimizer of its own that steps within backward."""

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

    model = nn.Sequential(
        nn.Linear(10, 40),
        nn.BatchNorm1d(40),
        nn.ReLU(),
        nn.Linear(40, 40),
        nn.ReLU(),
        nn.Linear(40, 1),
    )
    optimizers = {p: torch.optim.Adam([p], lr=1e-3) for p in model.parameters()}

    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    parts = {f"optimizer {i}": each for i, each in enumerate(optimizers.values())}
    first = checkpoints.load(args, model=model, **parts)
    for step in range(first, args.steps):
        x = torch.randn(16, 10)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, **parts)


if __name__ == "__main__":
    main()
