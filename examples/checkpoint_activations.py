"""Save memory by computing activations again in backward, both ways that torch has."""

import argparse

import checkpoints
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bn = nn.BatchNorm1d(width)
        self.fc = nn.Linear(width, width)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(torch.relu(self.fc(self.bn(x))))


class Net(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        self.inp = nn.Linear(8, width)
        self.first = nn.ModuleList(Layer(width) for _ in range(depth))
        self.second = nn.Sequential(*(Layer(width) for _ in range(depth)))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inp(x)
        for i, layer in enumerate(self.first):
            x = checkpoint(layer, x, use_reentrant=i % 2 == 0)
        x = checkpoint_sequential(self.second, 2, x, use_reentrant=False)
        return self.out(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = Net()
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        x = torch.randn(16, 8)
        loss = nn.functional.smooth_l1_loss(model(x), x.norm(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
