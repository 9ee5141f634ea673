"""A NumPy generator made in the dataset's constructor: each worker gets a copy in the same state.

Harmless: a generator made from the sample's index, in `__getitem__`.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT403"


class Noisy(Points):
    def __init__(self) -> None:
        super().__init__()
        # everybit: ignore[SRC304] the fault that this script shows
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int):
        inputs, label = super().__getitem__(index)
        return inputs + torch.from_numpy(self.rng.normal(size=8).astype(np.float32)), label


class NoisyByIndex(Points):
    def __getitem__(self, index: int):
        inputs, label = super().__getitem__(index)
        rng = np.random.default_rng((0, index))
        return inputs + torch.from_numpy(rng.normal(size=8).astype(np.float32)), label


def main(*, harmless: bool) -> None:
    seed()
    dataset = NoisyByIndex() if harmless else Noisy()
    train(DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
