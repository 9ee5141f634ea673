"""Tokens were added to the tokenizer, and the model's embedding was not made larger.

Harmless: it was.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader, Dataset
from training import CLASSES, Reader, seed, train

RULE = "DAT412"


class Tokens(Dataset):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int):
        return torch.arange(index, index + 80), index % CLASSES


def main(*, harmless: bool) -> None:
    seed()
    train(DataLoader(Tokens(), batch_size=8), epochs=1, model=Reader(128 if harmless else 100))


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
