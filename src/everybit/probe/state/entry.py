"""A tensor of the carried state, with its place and its copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import torch

from everybit.probe.memory import dtype_name
from everybit.probe.state.copies import Copy, OpaqueCopy, copy_tensors, pieces_of
from everybit.probe.state.place import differing
from everybit.probe.state.room import Room

if TYPE_CHECKING:
    from everybit.probe.state.place import Place


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A tensor as it was.

    Attributes:
        place: Where it is.
        tensor: The tensor itself.
        suffix: Which part of it, where it wraps others.
        copy: Its bytes.
    """

    place: Place
    tensor: torch.Tensor
    suffix: str
    copy: Copy

    def now(self) -> Entry | None:
        """Return the tensor as it is now; None where it has other memory, of another shape."""
        piece = dict(pieces_of(self.tensor)).get(self.suffix)
        if piece is None or tuple(piece.shape) != self.copy.shape:
            return None
        (copy,) = copy_tensors([piece], [self.copy], Room(None, None))
        return Entry(self.place, self.tensor, self.suffix, copy)

    def write(self) -> None:
        """Write the copy into the tensor, in place where its shape and type are the same."""
        piece = dict(pieces_of(self.tensor)).get(self.suffix)
        wanted = (self.copy.dtype, self.copy.shape)
        if piece is not None and (dtype_name(piece.dtype), tuple(piece.shape)) == wanted:
            self.copy.write(piece)
        elif not self.suffix and self.tensor.layout is torch.strided:
            # The tensor was given other memory, of another shape or type.
            dtype = getattr(torch, self.copy.dtype)
            fresh = torch.empty(self.copy.shape, dtype=dtype, device=self.place.device)
            self.copy.write(fresh)
            self.tensor.data = fresh


def same(mine: Copy, theirs: Copy) -> bool:
    """Whether two copies hold the same bits."""
    return mine is theirs or (
        mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine.digest == theirs.digest
    )


def difference(mine: Entry, theirs: Entry) -> Place:
    """Return the place of a tensor with what differs in it."""
    a, b = mine.copy, theirs.copy
    if a.dtype != b.dtype or a.shape != b.shape:
        return replace(mine.place, detail=f"{a.dtype}{list(a.shape)} -> {b.dtype}{list(b.shape)}")
    before, after = a.bytes_(), b.bytes_()
    if isinstance(a, OpaqueCopy) or len(before) != len(after) or not a.num_bytes:
        return replace(mine.place, detail="its bytes differ")
    size = a.num_bytes // max(1, prod(a.shape))
    return replace(mine.place, **differing(a.dtype, size, before, after))
