"""Data sets and a training loop for the tests of loaders; at module level, for spawned workers."""

from __future__ import annotations

import dataclasses
import io
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

import everybit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Log = list[tuple[Any, ...]]


class Noisy(Dataset[Any]):
    """Draws from every global stream for each sample, and from one of its own where asked."""

    def __init__(self, length: int = 24, *, own: bool = False) -> None:
        self.length = length
        self.generator = np.random.default_rng(5) if own else None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        drawn = random.random() + np.random.rand() + np.random.randn()
        drawn += self.generator.random() if self.generator is not None else 0.0
        return torch.full((3,), float(index)) + torch.rand(3) + float(drawn), index


class Stream(IterableDataset[Any]):
    """Gives each worker its own part, or all of it where it does not look at workers."""

    def __init__(self, length: int = 24, *, shared: bool = True) -> None:
        self.length = length
        self.shared = shared

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info is not None and self.shared else (0, 1)
        for index in range(first, self.length, step):
            yield torch.full((3,), float(index)), index


@dataclasses.dataclass
class Custom:
    """A batch of the program's own class."""

    inputs: torch.Tensor
    names: list[str]


def to_custom(samples: list[Any]) -> Custom:
    return Custom(torch.stack([x for x, _ in samples]), [str(index) for _, index in samples])


def to_tuple(samples: list[Any]) -> tuple[Any, ...]:
    return tuple(zip(*samples, strict=True))


def to_nothing(samples: list[Any]) -> None:
    return None


def seed() -> None:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)


def plain(batch: Any) -> Any:
    """Return a batch as values that can be compared."""
    if isinstance(batch, torch.Tensor):
        return batch.dtype, batch.tolist()
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return type(batch), plain(vars(batch))
    if isinstance(batch, dict):
        return {key: plain(item) for key, item in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch), [plain(item) for item in batch]
    return batch


def streams() -> tuple[Any, ...]:
    return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()


def batches(loader: Any, epochs: int = 2) -> list[Any]:
    return [plain(batch) for _ in range(epochs) for batch in loader]


class Training:
    """A small model with dropout over a loader, as a script would train it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.model = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.epoch = 0
        self.step = 0

    def run(self, epochs: int, *, stop: int | None = None) -> Log:
        log: Log = []
        for entry in self.steps(epochs):
            log.append(entry)
            if self.step == stop:
                break
        return log

    def steps(self, epochs: int) -> Iterator[tuple[Any, ...]]:
        for epoch in range(self.epoch, epochs):
            self.epoch = epoch
            if hasattr(self.loader.sampler, "set_epoch"):
                self.loader.sampler.set_epoch(epoch)
            for inputs, indices in self.loader:
                loss = self.model(inputs.float()).square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.step += 1
                yield epoch, indices.tolist(), inputs.tolist(), loss.item()

    def weights(self) -> list[Any]:
        return [parameter.tolist() for parameter in self.model.parameters()]

    def save(self, guard: everybit.Guard) -> bytes:
        buffer = io.BytesIO()
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
            "guard": guard.state_dict(),
        }
        torch.save(state, buffer)
        return buffer.getvalue()

    def load(self, data: bytes, guard: everybit.Guard) -> None:
        state = torch.load(io.BytesIO(data), weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.step = state["epoch"], state["step"]
        guard.load_state_dict(state["guard"])


def guarded(training: Training, run: Path) -> everybit.Guard:
    return everybit.Guard(training.model, training.optimizer, run=run, on_finding="record")
