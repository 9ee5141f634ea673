"""Fine-tune: a frozen backbone and a new head first; later its last block joins the optimizer."""

import argparse

import checkpoints
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(16, width), nn.BatchNorm1d(width), nn.ReLU())
        self.block = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU())
        self.fc = nn.Linear(width, 100)

    def forward(self, x):
        return self.fc(self.block(self.stem(x)))


def unfreeze(model, optimizer):
    for p in model.block.parameters():
        p.requires_grad_(True)
    optimizer.add_param_group({"params": model.block.parameters(), "lr": 1e-4})
    # One more layer, grown while training.
    model.adapter = nn.Linear(48, 48)
    nn.init.zeros_(model.adapter.weight)
    optimizer.add_param_group({"params": model.adapter.parameters(), "lr": 1e-3})
    model.block.append(model.adapter)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--unfreeze-at", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()

    torch.manual_seed(1234)
    pretrained = Backbone().state_dict()
    torch.manual_seed(args.seed)

    model = Backbone()
    print(model.load_state_dict(pretrained))
    for p in model.parameters():
        p.requires_grad = False
    model.fc = nn.Linear(48, 3)
    optimizer = torch.optim.AdamW(model.fc.parameters(), lr=1e-2)

    first = checkpoints.step_of(args)
    if first > args.unfreeze_at:
        unfreeze(model, optimizer)
    checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        if step == args.unfreeze_at:
            unfreeze(model, optimizer)
        model.train()
        model.stem.eval()  # statistics of the frozen part stay
        x = torch.randn(16, 16)
        y = x[:, :3].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
