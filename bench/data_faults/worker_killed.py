"""A worker is killed, as the system does where memory runs out.

Harmless: workers end with their epoch, and others are made for the next.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from torch.utils.data import DataLoader
from training import Points, seed, train

RULE = "DAT409"


class Greedy(Points):
    def __init__(self, *, harmless: bool) -> None:
        super().__init__()
        self.harmless = harmless

    def __getitem__(self, index: int):
        if index == 40 and not self.harmless:
            time.sleep(0.5)  # The loop waits for this batch by then.
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def main(*, harmless: bool) -> None:
    seed()
    train(DataLoader(Greedy(harmless=harmless), batch_size=8, num_workers=1))


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
