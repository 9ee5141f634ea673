"""A generator of the dataset, one worker: it is made anew each epoch, and draws the same again.

Harmless: the worker is kept from epoch to epoch, and its generator goes on.
"""

from __future__ import annotations

import random
import sys

from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT403"


class Flipped(Points):
    def __init__(self) -> None:
        super().__init__()
        # everybit: ignore[SRC304] the fault that this script shows
        self.random = random.Random(5)

    def __getitem__(self, index: int):
        inputs, label = super().__getitem__(index)
        return (inputs.flip(0) if self.random.random() < 0.5 else inputs), label


def main(*, harmless: bool) -> None:
    seed()
    train(
        DataLoader(
            Flipped(), batch_size=8, shuffle=True, num_workers=1, persistent_workers=harmless
        )
    )


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
