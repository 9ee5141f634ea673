"""An iterable dataset gives all its samples in each of two workers.

Harmless: each worker gives its part.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from training import points, seed, train

RULE = "DAT401"


class Stream(IterableDataset):
    def __init__(self, *, split: bool) -> None:
        self.inputs, self.labels = points()
        self.split = split

    def __iter__(self):
        info = get_worker_info()
        step = info.num_workers if self.split else 1
        for index in range(info.id if self.split else 0, len(self.inputs), step):
            yield self.inputs[index], int(self.labels[index])


def main(*, harmless: bool) -> None:
    seed()
    train(DataLoader(Stream(split=harmless), batch_size=8, num_workers=2), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
