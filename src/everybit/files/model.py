"""The model at a path: one file, a sharded folder, a DCP folder, or a checkpoint folder.

What the tensors are called, in which parts they lie, and what plain values stand beside them. The
names are those that the state dict has: of a sharded model the shards' own, of a DCP folder those
of its `.metadata`. In a folder of several files the model's file keeps its names; the tensors of
any other stand under the file's name (`optimizer.pt`: `optimizer.state.0.exp_avg`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.parts import Assembly, Part, assembled_chunks, assembled_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

    from everybit.core.digest import Digest
    from everybit.core.verdict import Skipped


class Layout(StrEnum):
    """How a model lies on disk."""

    FILE = "file"
    SHARDED = "sharded"
    DCP = "dcp"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTensor:
    """One tensor of a model.

    Attributes:
        name: As the state dict calls it.
        dtype: Canonical dtype name.
        shape: Shape of the whole.
        parts: Where it lies; several for a tensor sharded over DCP entries.
        unreadable: Why its elements cannot be read; empty where they can.
        tree: Digest of the canonical bytes, where it was asked for and can be computed.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    unreadable: str = ""
    tree: Digest | None = None

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return STORED_ITEMSIZE[self.dtype]

    @property
    def num_elements(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def num_bytes(self) -> int:
        """Length of the canonical bytes."""
        return self.num_elements * self.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """All tensors at a path, and what stands beside them.

    Attributes:
        path: The path.
        layout: How it lies there.
        tensors: In file order.
        files: The files that hold it, relative to the path; `("",)` for a single file.
        values: Plain values beside the tensors (step, epoch, param_groups ...) by dotted key.
        skipped: Parts that could not be read or named.
        notes: Remarks for people.
    """

    path: Path
    layout: Layout
    tensors: tuple[ModelTensor, ...]
    files: tuple[str, ...]
    values: Mapping[str, object] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    def by_name(self) -> dict[str, ModelTensor]:
        """Return `{name: tensor}`."""
        return {tensor.name: tensor for tensor in self.tensors}


def read_model(path: str | PathLike[str], *, digests: bool = False) -> Model:
    """Read which tensors the model at a path has, without torch and without loading them.

    Args:
        path: A model file, an index, or a folder that holds one model.
        digests: Also read every tensor's bytes, for its `tree` digest.

    Raises:
        PathError: It cannot be read, or holds no model that this release reads.
        DamagedError: A file of it is damaged, or missing; names the rule.
    """
    from everybit.files.model_layout import read_layout

    model = read_layout(Path(path))
    return with_digests(model) if digests else model


def read_model_tensor(
    model: Model, tensor: ModelTensor, start: int = 0, end: int | None = None
) -> bytes:
    """Return canonical bytes `[start, end)` of a tensor, its parts joined.

    Args:
        model: From `read_model`.
        tensor: One of its tensors.
        start: First byte, counted in canonical bytes (element index times element size).
        end: Last byte, excluded; all where None.

    Raises:
        PathError: A file cannot be read, or the tensor's bytes cannot.
    """
    return b"".join(bytes(chunk) for chunk in model_tensor_chunks(model, tensor, start, end))


def model_tensor_chunks(
    model: Model, tensor: ModelTensor, start: int = 0, end: int | None = None
) -> Iterator[bytes | memoryview]:
    """Yield canonical bytes `[start, end)` of a tensor in bounded, short-lived buffers.

    Raises:
        PathError: A file cannot be read, or the tensor's bytes cannot.
    """
    if tensor.unreadable:
        raise PathError(
            f"tensor {tensor.name} cannot be read: {tensor.unreadable}", where=str(model.path)
        )
    yield from assembled_chunks(_assembly(model, tensor), start, end)


def with_digests(model: Model) -> Model:
    """Return the model with its tensors' `tree` digests; equal places are read once.

    Raises:
        PathError: A file cannot be read.
    """
    from everybit.files.elements import expands_too_far

    known: dict[object, Digest] = {}
    found = []
    for tensor in model.tensors:
        if tensor.unreadable or any(expands_too_far(part.tensor) for part in tensor.parts):
            found.append(tensor)
            continue
        key = (tensor.dtype, tensor.shape, tuple(_place(part) for part in tensor.parts))
        if key not in known:
            known[key] = assembled_digest(_assembly(model, tensor), tensor.dtype)
        found.append(replace(tensor, tree=known[key]))
    return replace(model, tensors=tuple(found))


def _assembly(model: Model, tensor: ModelTensor) -> Assembly:
    return Assembly(
        root=model.path, itemsize=tensor.itemsize, shape=tensor.shape, parts=tensor.parts
    )


def _place(part: Part) -> tuple[object, ...]:
    tensor = part.tensor
    return (
        part.path, part.offset, part.shape, tensor.stride, tensor.start, tensor.inline,
        tensor.conjugate, tensor.negative, tensor.big_endian,
    )  # fmt: skip
