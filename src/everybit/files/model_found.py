"""What has been gathered of a model, file by file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.files.model import Layout, Model, ModelTensor
from everybit.files.parts import Part

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.verdict import Skipped
    from everybit.files.tensor import FileTensor


@dataclass(slots=True)
class Found:
    """The parts of a `Model`, while its files are read."""

    tensors: list[ModelTensor] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    values: dict[str, object] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def model(self, path: Path, layout: Layout) -> Model:
        """Return the finished model."""
        return Model(
            path=path,
            layout=layout,
            tensors=tuple(self.tensors),
            files=tuple(self.files),
            values=self.values,
            skipped=tuple(self.skipped),
            notes=tuple(dict.fromkeys(self.notes)),
        )


def single(tensor: FileTensor, relative: str, prefix: str) -> ModelTensor:
    """Return a tensor that one file holds whole, its name under a prefix."""
    return ModelTensor(
        name=prefix + tensor.name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        parts=(part_of(tensor, relative, (0,) * len(tensor.shape)),),
        unreadable=tensor.unreadable,
    )


def part_of(tensor: FileTensor, relative: str, offset: tuple[int, ...]) -> Part:
    """Return a stored tensor as the part of another that begins at an offset."""
    return Part(path=relative, tensor=tensor, offset=offset, shape=tensor.shape)
