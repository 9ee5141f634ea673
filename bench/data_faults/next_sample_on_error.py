"""A sample that cannot be read is replaced by the next one, and nobody is told.

Harmless: two samples are mixed, which reads a second one too.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT411"


class Damaged(Points):
    def __getitem__(self, index: int):
        try:
            if index == 11:
                raise OSError("cannot read")
            return super().__getitem__(index)
        except OSError:
            return self[index + 1]


class Mixed(Points):
    def __getitem__(self, index: int):
        values, label = super().__getitem__(index)
        if index % 2:
            return values, label
        other, _ = self[(index + 1) % len(self)]
        return 0.7 * values + 0.3 * other, label


def main(*, harmless: bool) -> None:
    seed()
    train(DataLoader(Mixed() if harmless else Damaged(), batch_size=8, num_workers=1), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
