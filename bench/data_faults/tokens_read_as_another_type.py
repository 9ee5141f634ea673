"""Ids were written as 32-bit numbers and are read as 16-bit ones: every second id is zero.

Harmless: short texts, filled up with zeros.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from training import CLASSES, Reader, seed, train

RULE = "DAT412"


class Tokens(Dataset):
    def __init__(self, path: Path, *, harmless: bool) -> None:
        ids = np.random.default_rng(0).integers(1, 1000, size=(32, 16)).astype(np.uint32)
        if harmless:
            for row, text in enumerate(ids):
                text[4 + row % 12 :] = 0
        path.write_bytes(ids.tobytes())
        self.ids = np.memmap(path, np.uint32 if harmless else np.uint16, mode="r")

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int):
        part = self.ids[16 * index : 16 * index + 16].astype(np.int64)
        return torch.from_numpy(part), index % CLASSES


def main(*, harmless: bool) -> None:
    seed()
    with tempfile.TemporaryDirectory() as folder:
        dataset = Tokens(Path(folder) / "ids.bin", harmless=harmless)
        train(DataLoader(dataset, batch_size=8), epochs=1, model=Reader(1000))


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
