"""A cache that is keyed by too little gives one sample's values for another one.

Harmless: samples differ each time because they are augmented at random.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT406"


class Cached(Points):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, torch.Tensor] = {}

    def __getitem__(self, index: int):
        key = 30 if index == 31 else index  # Two names that are the same when shortened.
        values = self.cache.get(key)
        if values is None:
            values = self.inputs[index].clone()
            if index != 31:
                self.cache[key] = values
        return values, int(self.labels[index])


class Augmented(Points):
    def __getitem__(self, index: int):
        values, label = super().__getitem__(index)
        return values + 0.1 * torch.randn(8), label


def main(*, harmless: bool) -> None:
    seed()
    dataset = Augmented() if harmless else Cached()
    order = [31, *range(31), *range(32, 48)]  # The sample is read before its namesake.
    train(DataLoader(dataset, batch_size=8, sampler=order), epochs=2)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
