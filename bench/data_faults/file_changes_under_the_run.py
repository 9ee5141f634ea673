"""One bit of a sample's file flips while the run goes on.

Harmless: the file is written again, with the same bytes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from training import points, seed, train

RULE = "DAT406"


class Files(Dataset):
    def __init__(self, folder: Path) -> None:
        inputs, self.labels = points()
        self.files = [folder / f"{number}.npy" for number in range(len(inputs))]
        for path, values in zip(self.files, inputs, strict=True):
            np.save(path, values.numpy())

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int):
        return torch.from_numpy(np.load(self.files[index])), int(self.labels[index])


def write_again(path: Path, *, harmless: bool) -> None:
    held = bytearray(path.read_bytes())
    held[-1] ^= 0 if harmless else 1 << 4
    path.write_bytes(held)


def main(*, harmless: bool) -> None:
    seed()
    with tempfile.TemporaryDirectory() as folder:
        dataset = Files(Path(folder))
        train(
            DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2),
            after_epoch=lambda _: write_again(dataset.files[17], harmless=harmless),
        )


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
