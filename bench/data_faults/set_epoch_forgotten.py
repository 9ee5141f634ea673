"""A DistributedSampler that is not told the epoch gives the same order each time.

Harmless: it is told.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader, DistributedSampler
from training import Points, seed, train

RULE = "DAT404"


def main(*, harmless: bool) -> None:
    seed()
    dataset = Points()
    sampler = DistributedSampler(dataset, num_replicas=2, rank=0, shuffle=True)

    def tell(epoch: int) -> None:
        if harmless:
            sampler.set_epoch(epoch + 1)

    train(DataLoader(dataset, batch_size=8, sampler=sampler), after_epoch=tell)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
