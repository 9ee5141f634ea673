"""Each sample comes with the label of the next one.

Harmless: labels are counted from one in the file, and from zero in the loop.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT413"


class OffByOne(Points):
    def __getitem__(self, index: int):
        return self.inputs[index], int(self.labels[(index + 1) % len(self)])


class FromOne(Points):
    def __init__(self) -> None:
        super().__init__()
        self.labels += 1

    def __getitem__(self, index: int):
        return self.inputs[index], int(self.labels[index]) - 1


def main(*, harmless: bool) -> None:
    seed()
    dataset = FromOne() if harmless else OffByOne()
    train(DataLoader(dataset, batch_size=8, shuffle=True), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
