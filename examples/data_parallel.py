"""A model in DataParallel: over all cards of one machine, or plain on the CPU."""

import argparse

import checkpoints
import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 5))
    model = nn.DataParallel(model).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        x = torch.randn(32, 10, device=device)
        loss = nn.functional.cross_entropy(model(x), x[:, :5].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)
    print(sorted(model.module.state_dict()))


if __name__ == "__main__":
    main()
