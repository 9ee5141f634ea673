"""The labels are shuffled between epochs, the inputs are not.

Harmless: the loader shuffles.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT413"


def main(*, harmless: bool) -> None:
    seed()
    dataset = Points()

    def shuffle(_epoch: int) -> None:
        if not harmless:
            dataset.labels = dataset.labels[torch.randperm(len(dataset))]

    train(DataLoader(dataset, batch_size=8, shuffle=harmless), after_epoch=shuffle)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
