"""A buffer of NumPy's is filled for each batch, and the loop takes the next batch before it uses
the last one.

Harmless: it uses each batch before it takes the next.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch.utils.data import DataLoader
from training import FEATURES, Points, classifier, seed, step

RULE = "DAT405"


class Collate:
    def __init__(self) -> None:
        self.buffer = np.empty((8, FEATURES), np.float32)

    def __call__(self, samples):
        for row, (values, _) in enumerate(samples):
            self.buffer[row] = values
        return torch.from_numpy(self.buffer), torch.tensor([label for _, label in samples])


def main(*, harmless: bool) -> None:
    seed()
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = iter(DataLoader(Points(), batch_size=8, collate_fn=Collate()))
    if harmless:
        for batch in batches:
            step(model, optimizer, batch)
        return
    waiting = next(batches)
    for following in batches:
        step(model, optimizer, waiting)
        waiting = following
    step(model, optimizer, waiting)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
