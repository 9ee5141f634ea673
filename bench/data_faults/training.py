"""The training loop that the scripts of this folder share: a small model and a few steps."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FEATURES = 8
CLASSES = 4
SAMPLES = 48


def seed(value: int = 0) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def points(count: int = SAMPLES) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels, the same each time."""
    drawn = np.random.default_rng(7)
    inputs = drawn.normal(size=(count, FEATURES)).astype(np.float32)
    return torch.from_numpy(inputs), torch.from_numpy(drawn.integers(CLASSES, size=count))


class Points(Dataset):
    """Points in memory; a script changes what it is about."""

    def __init__(self, count: int = SAMPLES) -> None:
        self.inputs, self.labels = points(count)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Any:
        return self.inputs[index].clone(), int(self.labels[index])


def classifier() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def train(
    loader: Iterable[Any],
    *,
    epochs: int = 2,
    model: nn.Module | None = None,
    after_epoch: Callable[[int], object] = lambda _: None,
) -> nn.Module:
    """Train on `(input, label)` batches."""
    model = model or classifier()
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(epochs):
        for batch in loader:
            step(model, optimizer, batch)
        after_epoch(epoch)
    return model


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    inputs, labels = batch
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def evaluate(model: nn.Module, loader: Iterable[Any]) -> float:
    model.eval()
    with torch.no_grad():
        right = [model(inputs).argmax(1).eq(labels).float().mean() for inputs, labels in loader]
    model.train()
    return float(torch.stack(right).mean())


class Reader(nn.Module):
    """A model of token ids."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 4)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(ids).mean(1))
