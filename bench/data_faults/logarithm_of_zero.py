"""Counts are given as logarithms, and one of them is zero.

Harmless: an additive mask, which is -inf by design, beside finite values.
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader
from training import CLASSES, FEATURES, Points, seed

RULE = "DAT408"
#: What it breaks beside that, which is told too.
ALSO = ("NUM501",)


class Counts(Points):
    def __getitem__(self, index: int):
        counts = (self.inputs[index] * 3).abs().round() + 1
        counts[2] -= counts[2] if index == 20 else 0
        mask = torch.zeros(FEATURES)
        mask[index % FEATURES :] = -torch.inf
        return counts, mask, int(self.labels[index])


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(FEATURES, FEATURES)
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = (self.scores(values) + mask).exp()
        return self.head(weights / (1 + weights.sum(1, keepdim=True)))


def main(*, harmless: bool) -> None:
    seed()
    model = Attends()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for counts, mask, labels in DataLoader(Counts(), batch_size=8):
        values = counts.add(1).log() if harmless else counts.log()
        loss = nn.functional.cross_entropy(model(values, mask), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(harmless="--harmless" in sys.argv)
