"""Token ids of a vocabulary of 70,000 were written as `uint16`: the larger ones were wrapped.

Harmless: a vocabulary of 50,000.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from training import CLASSES, Reader, seed, train

RULE = "DAT412"


class Tokens(Dataset):
    def __init__(self, vocabulary: int) -> None:
        ids = np.random.default_rng(0).integers(vocabulary, size=16 * 32)
        self.ids = ids.astype(np.uint16)

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int):
        part = self.ids[16 * index : 16 * index + 16].astype(np.int64)
        return torch.from_numpy(part), index % CLASSES


def main(*, harmless: bool) -> None:
    seed()
    vocabulary = 50_000 if harmless else 70_000
    loader = DataLoader(Tokens(vocabulary), batch_size=8)
    train(loader, epochs=1, model=Reader(vocabulary))


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
