"""Optimizers from outside torch: Lion, schedule-free AdamW, LAMB, Lookahead around RAdam."""

import argparse

import checkpoints
import schedulefree
import torch
import torch_optimizer
from lion_pytorch import Lion
from torch import nn


def build(name, params):
    if name == "lion":
        return Lion(params, lr=1e-3, weight_decay=1e-2)
    if name == "schedulefree":
        return schedulefree.AdamWScheduleFree(params, lr=2e-3, warmup_steps=3)
    if name == "lamb":
        return torch_optimizer.Lamb(params, lr=1e-2)
    return torch_optimizer.Lookahead(torch.optim.RAdam(params, lr=1e-2), k=2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--optimizer", choices=["lion", "schedulefree", "lamb", "lookahead"], default="lion"
    )
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(nn.Linear(12, 48), nn.BatchNorm1d(48), nn.Mish(), nn.Linear(48, 3))
    optimizer = build(args.optimizer, model.parameters())
    switch = getattr(optimizer, "train", lambda: None), getattr(optimizer, "eval", lambda: None)
    first = checkpoints.load(args, model=model, optimizer=optimizer)
    for step in range(first, args.steps):
        model.train()
        switch[0]()
        x = torch.randn(16, 12)
        loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        if step % 4 == 3:
            model.eval()
            switch[1]()
            with torch.no_grad():
                print(f"evaluation {model(torch.ones(4, 12)).sum().item():.6f}")
        checkpoints.save(args, step + 1, model=model, optimizer=optimizer)


if __name__ == "__main__":
    main()
