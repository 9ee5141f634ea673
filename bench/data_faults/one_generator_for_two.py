"""Training and validation shuffle by one generator, and one epoch is validated twice.

Harmless: each by its own.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader
from training import Points, classifier, evaluate, seed, train

RULE = "DAT415"


def main(*, harmless: bool) -> None:
    seed()
    one = torch.Generator().manual_seed(1)
    other = torch.Generator().manual_seed(2) if harmless else one
    training = DataLoader(Points(), batch_size=8, shuffle=True, generator=one)
    validation = DataLoader(Points(16), batch_size=8, shuffle=True, generator=other)
    model = classifier()

    def validate(epoch: int) -> None:
        for _ in range(2 if epoch == 1 else 1):
            evaluate(model, validation)

    train(training, epochs=3, model=model, after_epoch=validate)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
