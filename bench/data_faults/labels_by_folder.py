"""Classes are numbered by the folders that are there, and validation lacks one of them.

Harmless: validation lacks it too, and is numbered as training is.
"""

from __future__ import annotations

import sys

from torch.utils.data import DataLoader
from training import Points, evaluate, seed, train

RULE = "DAT414"


class Folders(Points):
    def __init__(self, folders: list[str], numbering: list[str]) -> None:
        super().__init__()
        self.class_to_idx = {name: number for number, name in enumerate(numbering)}
        self.names = [folders[int(label) % len(folders)] for label in self.labels]

    def __getitem__(self, index: int):
        return self.inputs[index], self.class_to_idx[self.names[index]]


def main(*, harmless: bool) -> None:
    seed()
    there = ["cat", "cow", "dog", "fox"]
    fewer = ["cat", "dog", "fox"]
    training = DataLoader(Folders(there, there), batch_size=8, shuffle=True)
    validation = DataLoader(Folders(fewer, there if harmless else fewer), batch_size=8)
    evaluate(train(training, epochs=1), validation)


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
