"""Samples that cannot be read are blank, all of them the same, and the code says nothing.

Harmless: the same code, and every sample can be read.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader
from training import FEATURES, Points, seed, train

RULE = "DAT411"


class Damaged(Points):
    def __init__(self, damaged: set[int]) -> None:
        super().__init__()
        self.damaged = damaged

    def __getitem__(self, index: int):
        try:
            if index in self.damaged:
                raise OSError("cannot read")
            return super().__getitem__(index)
        except OSError:
            return torch.zeros(FEATURES), 0


def main(*, harmless: bool) -> None:
    seed()
    train(DataLoader(Damaged(set() if harmless else {3, 19, 40}), batch_size=8), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
