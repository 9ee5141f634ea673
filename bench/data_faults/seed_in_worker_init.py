"""Every worker seeds NumPy with the same number.

Harmless: the seed that torch gave the worker.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT403"


class Noisy(Points):
    def __getitem__(self, index: int):
        inputs, label = super().__getitem__(index)
        return inputs + torch.from_numpy(np.random.normal(size=8).astype(np.float32)), label


def same(_worker: int) -> None:
    np.random.seed(42)


def own(_worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


def main(*, harmless: bool) -> None:
    seed()
    init = own if harmless else same
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2, worker_init_fn=init)
    train(loader, epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
