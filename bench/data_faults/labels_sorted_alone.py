"""The collate function sorts the labels and leaves the inputs as they are.

Harmless: it sorts both, by the label.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT413"


def sorts_labels(samples):
    inputs = torch.stack([values for values, _ in samples])
    return inputs, torch.tensor(sorted(label for _, label in samples))


def sorts_both(samples):
    samples = sorted(samples, key=lambda sample: sample[1])
    inputs = torch.stack([values for values, _ in samples])
    return inputs, torch.tensor([label for _, label in samples])


def main(*, harmless: bool) -> None:
    seed()
    collate = sorts_both if harmless else sorts_labels
    train(DataLoader(Points(), batch_size=8, num_workers=1, collate_fn=collate), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
