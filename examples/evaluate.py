"""Evaluate a trained model from a checkpoint: no optimizer, no gradients."""

import argparse
import os
import tempfile

import torch
from torch import nn


def build():
    return nn.Sequential(
        nn.Conv1d(1, 8, 5),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(32, 4),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50, help="batches to evaluate")
    parser.add_argument("--checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = build()
    with tempfile.TemporaryDirectory() as folder:
        path = args.checkpoint or os.path.join(folder, "model.pt")
        if args.checkpoint is None:
            torch.save(build().state_dict(), path)
        print(model.load_state_dict(torch.load(path, weights_only=True)))
    model.eval()
    total = correct = 0
    loss = 0.0
    with torch.inference_mode():
        for _ in range(args.steps):
            x = torch.randn(8, 1, 40)
            y = x.mean((1, 2)).mul(8).long().clamp(0, 3)
            logits = model(x)
            loss += nn.functional.cross_entropy(logits, y, reduction="sum").item()
            correct += (logits.argmax(1) == y).sum().item()
            total += len(y)
            print(f"samples {total} loss {loss / total:.6f} accuracy {correct / total:.4f}")


if __name__ == "__main__":
    main()
