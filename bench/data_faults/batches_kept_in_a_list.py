"""All batches are kept in a list, and all of them are one tensor.

Harmless: the collate function makes new tensors. (And the loop normalises each in place, which
is a change on purpose.)
"""

from __future__ import annotations

import sys

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
        torch.stack([values for values, _ in samples], out=inputs)
        return inputs, torch.tensor([label for _, label in samples])


def main(*, harmless: bool) -> None:
    seed()
    kept = list(DataLoader(Points(), batch_size=8, collate_fn=Collate(harmless=harmless)))
    if harmless:
        for inputs, _ in kept:
            inputs.sub_(inputs.mean()).div_(inputs.std())
    train(kept, epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
