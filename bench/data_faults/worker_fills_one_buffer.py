"""A collate function fills one buffer again and again; a worker writes the next batch into it
while the last one still waits for the loop.

Harmless: a new tensor each time.
"""

from __future__ import annotations

import sys
import time

import torch
from torch.utils.data import DataLoader
from training import FEATURES, Points, seed, train

RULE = "DAT405"


class Collate:
    def __init__(self, *, harmless: bool) -> None:
        self.harmless = harmless
        self.buffer = torch.empty(8, FEATURES)

    def __call__(self, samples):
        inputs = torch.empty(8, FEATURES) if self.harmless else self.buffer
        for row, (values, _) in enumerate(samples):
            inputs[row] = values
        return inputs, torch.tensor([label for _, label in samples])


def slowly(loader):
    for batch in loader:
        time.sleep(0.05)  # The model takes its time, the worker goes on.
        yield batch


def main(*, harmless: bool) -> None:
    seed()
    collate = Collate(harmless=harmless)
    loader = DataLoader(Points(), batch_size=8, num_workers=1, collate_fn=collate)
    train(slowly(loader), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
