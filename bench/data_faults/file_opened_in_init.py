"""The dataset opens its file in the constructor; forked workers read through it, and move each
other's position.

Harmless: each worker opens it on its first read.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from training import FEATURES, points, seed, train

RULE = "DAT410"


class OneFile(Dataset):
    def __init__(self, path: Path, *, lazy: bool) -> None:
        inputs, self.labels = points()
        path.write_bytes(inputs.numpy().tobytes())
        self.path = path
        self.file = None if lazy else path.open("rb")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        if self.file is None:
            self.file = self.path.open("rb")
        self.file.seek(4 * FEATURES * index)
        held = bytearray(self.file.read(4 * FEATURES))
        held += bytes(4 * FEATURES - len(held))  # Where another worker moved the position.
        return torch.frombuffer(held, dtype=torch.float32), int(self.labels[index])


def main(*, harmless: bool) -> None:
    seed()
    with tempfile.TemporaryDirectory() as folder:
        dataset = OneFile(Path(folder) / "points.bin", lazy=harmless)
        train(DataLoader(dataset, batch_size=8, num_workers=2), epochs=1)
        if dataset.file is not None:
            dataset.file.close()


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
