"""Real text that is on every machine: the sources of Python's standard library."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import torch

from everybit.core.errors import PathError


def standard_library_bytes(num_bytes: int) -> torch.Tensor:
    """Return the first bytes of the standard library's modules in alphabetical order (uint8).

    Raises:
        PathError: Python was installed without sources.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    text = bytearray()
    for path in sorted(folder.glob("*.py")):
        if len(text) >= num_bytes:
            break
        text += path.read_bytes()
    if len(text) < 4096:
        raise PathError(
            "no Python sources to train on",
            where=str(folder),
            todo="use a Python that comes with its standard library as source files",
        )
    return torch.frombuffer(text[:num_bytes], dtype=torch.uint8).clone()


class Batches:
    """Random pieces of a text, drawn with a generator of their own.

    Args:
        text: uint8, one dimension.
        batch: Pieces a batch.
        context: Tokens a piece.
        seed: Seed of the generator.
    """

    def __init__(self, text: torch.Tensor, *, batch: int, context: int, seed: int) -> None:
        self._text = text
        self._batch = batch
        self._context = context
        self._generator = torch.Generator().manual_seed(seed)

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tokens and targets, int64, each `(batch, context)`."""
        last = len(self._text) - self._context - 1
        starts = torch.randint(last, (self._batch, 1), generator=self._generator)
        pieces = self._text[starts + torch.arange(self._context + 1)].long()
        return pieces[:, :-1], pieces[:, 1:]
