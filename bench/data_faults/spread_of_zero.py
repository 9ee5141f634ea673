"""Samples are divided by their spread, and one of them is constant.

Harmless: a small number is added to the spread.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT408"
#: What it breaks beside that, which is told too.
ALSO = ("NUM501",)


class Standard(Points):
    def __init__(self, tiny: float) -> None:
        super().__init__()
        self.inputs[13] = 2.0
        self.tiny = tiny

    def __getitem__(self, index: int):
        values = self.inputs[index]
        return (values - values.mean()) / (values.std() + self.tiny), int(self.labels[index])


def main(*, harmless: bool) -> None:
    seed()
    train(DataLoader(Standard(1e-6 if harmless else 0.0), batch_size=8), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
