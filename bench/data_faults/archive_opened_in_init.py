"""Forked workers read members of one open zip archive.

Harmless: one open file, read at given positions by `os.pread`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from training import FEATURES, points, seed, train

RULE = "DAT410"
#: What it breaks beside that, which is told too.
ALSO = ("DAT411",)


class Archive(Dataset):
    def __init__(self, path: Path) -> None:
        inputs, self.labels = points()
        with zipfile.ZipFile(path, "w") as archive:
            for number, values in enumerate(inputs):
                archive.writestr(str(number), values.numpy().tobytes())
        # everybit: ignore[SRC315] the fault that this script shows
        self.archive = zipfile.ZipFile(path)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        try:
            held = self.archive.read(str(index))
        except zipfile.BadZipFile:
            held = bytes(4 * FEATURES)
        return torch.frombuffer(bytearray(held), dtype=torch.float32), int(self.labels[index])


class AtPositions(Dataset):
    def __init__(self, path: Path) -> None:
        inputs, self.labels = points()
        path.write_bytes(inputs.numpy().tobytes())
        self.file = path.open("rb")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        held = os.pread(self.file.fileno(), 4 * FEATURES, 4 * FEATURES * index)
        return torch.frombuffer(bytearray(held), dtype=torch.float32), int(self.labels[index])


def main(*, harmless: bool) -> None:
    seed()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points"
        dataset = AtPositions(path) if harmless else Archive(path)
        train(DataLoader(dataset, batch_size=8, num_workers=2), epochs=1)
        (dataset.file if harmless else dataset.archive).close()


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
