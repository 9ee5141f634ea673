"""The loop seeds torch behind each epoch: samples are augmented alike each time.

Harmless: it is seeded with another number each time.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT403"
#: What it breaks beside that, which is told too.
ALSO = ("DAT404",)


class Noisy(Points):
    def __getitem__(self, index: int):
        inputs, label = super().__getitem__(index)
        return inputs + torch.randn(8), label


def main(*, harmless: bool) -> None:
    seed()
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True)
    train(
        loader, epochs=3, after_epoch=lambda epoch: torch.manual_seed(4 + epoch if harmless else 3)
    )


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
