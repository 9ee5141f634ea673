"""The loop passes over batches that raise an error: their samples never come.

Harmless: the last batch, which is not full, is left out.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT402"


class Damaged(Points):
    def __init__(self, *, harmless: bool) -> None:
        super().__init__(52 if harmless else 48)
        self.harmless = harmless

    def __getitem__(self, index: int):
        if index == 21 and not self.harmless:
            raise OSError("cannot read")
        return super().__getitem__(index)


def patiently(loader):
    batches = iter(loader)
    while True:
        try:
            yield next(batches)
        except StopIteration:
            return
        except OSError:
            continue


def main(*, harmless: bool) -> None:
    seed()
    loader = DataLoader(Damaged(harmless=harmless), batch_size=8, drop_last=True)
    train(patiently(loader), epochs=1)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
