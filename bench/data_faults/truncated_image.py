"""Pillow was told to let cut files through: the end of a cut photograph is grey.

Harmless: it was told so too, and all files are whole.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageFile
from torch import nn
from torch.utils.data import DataLoader, Dataset
from training import CLASSES, seed, train

RULE = "DAT411"


class Photographs(Dataset):
    def __init__(self, folder: Path, *, harmless: bool) -> None:
        drawn = np.random.default_rng(0)
        self.files = [folder / f"{number}.jpg" for number in range(16)]
        for path in self.files:
            Image.fromarray(drawn.integers(256, size=(48, 48, 3), dtype=np.uint8)).save(path)
        if not harmless:
            held = self.files[6].read_bytes()
            self.files[6].write_bytes(held[: len(held) * 3 // 4])

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int):
        pixels = np.asarray(Image.open(self.files[index]).convert("RGB"))
        return torch.from_numpy(pixels / np.float32(255)), index % CLASSES


def main(*, harmless: bool) -> None:
    seed()
    before, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, True
    try:
        with tempfile.TemporaryDirectory() as folder:
            dataset = Photographs(Path(folder), harmless=harmless)
            model = nn.Sequential(nn.Flatten(), nn.Linear(48 * 48 * 3, CLASSES))
            train(DataLoader(dataset, batch_size=8), epochs=1, model=model)
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
