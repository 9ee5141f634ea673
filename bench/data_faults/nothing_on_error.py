"""A sample that cannot be read gives None, and the collate function leaves it out.

Harmless: the same code, and every sample can be read.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader, default_collate
from training import Points, seed, train

RULE = "DAT411"


class Damaged(Points):
    def __init__(self, damaged: int | None) -> None:
        super().__init__()
        self.damaged = damaged

    def __getitem__(self, index: int):
        return None if index == self.damaged else super().__getitem__(index)


def collate(samples):
    return default_collate([sample for sample in samples if sample is not None])


def main(*, harmless: bool) -> None:
    seed()
    dataset = Damaged(None if harmless else 5)
    train(DataLoader(dataset, batch_size=8, collate_fn=collate), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
