"""Training and validation shuffle by one generator.

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
    train(training, model=model, after_epoch=lambda _: evaluate(model, validation))


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
