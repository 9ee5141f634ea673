"""`__getitem__` scales the dataset's own memory in place: each epoch the samples are smaller.

Harmless: it scales a copy.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT406"


class Scaled(Points):
    def __getitem__(self, index: int):
        values = self.inputs[index]
        values /= 2
        return values, int(self.labels[index])


class ScaledCopy(Points):
    def __getitem__(self, index: int):
        return self.inputs[index] / 2, int(self.labels[index])


def main(*, harmless: bool) -> None:
    seed()
    train(DataLoader(ScaledCopy() if harmless else Scaled(), batch_size=8, shuffle=True))


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
