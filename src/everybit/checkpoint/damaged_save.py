"""What to say of a file that does not hold what the live tensors held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.checkpoint.live_bytes import tensor_pieces, tensor_tree
from everybit.core.change import Change, changes_between
from everybit.core.dtype import ITEMSIZE
from everybit.core.errors import DamagedError
from everybit.files import read_tensor_bytes

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from everybit.core.digest import Digest
    from everybit.files import FileTensor

_MAX_COUNTED_BYTES: Final = 256 * 1024 * 1024


def damaged_save(
    temporary: Path,
    path: Path,
    name: str,
    there: FileTensor | None,
    tensor: torch.Tensor | None,
    expected: Digest,
) -> DamagedError:
    """Return the error for a tensor whose bytes in the file are not those that it had in memory.

    Args:
        temporary: The file as it was written.
        path: What it was to become.
        name: The tensor.
        there: It in the file; None where the file has no such tensor.
        tensor: It in memory; None for an array, or a part of a tensor.
        expected: Its digest before the file was written.
    """
    where = str(path)
    if there is None:
        what = f"was written damaged: it holds no tensor {name}"
        return DamagedError(what, rule="FIL107", where=where, todo=_AGAIN)
    if tensor is not None and tensor_tree(tensor) != expected:
        return DamagedError(
            f"{name} changed in memory while it was being saved",
            rule="FIL102",
            where=where,
            todo="save when nothing trains or writes to it (another thread, an asynchronous copy)",
        )
    changes = [] if tensor is None else _changes(temporary, there, tensor)
    shown = ""
    if changes:
        first = changes[0]
        bits = ", ".join(map(str, first.bits))
        shown = (
            f": {len(changes)} elements, the first of them element {first.element} "
            f"({first.before} in memory, {first.after} in the file, bits {bits})"
        )
    what = f"was written damaged: {name} differs from what it is in memory{shown}"
    return DamagedError(what, rule="FIL102", where=where, todo=_AGAIN)


_AGAIN = (
    "the file was not put in place, what was there before is untouched; save again, and where it "
    "repeats suspect the disk or memory of this machine"
)


def _changes(temporary: Path, there: FileTensor, tensor: torch.Tensor) -> list[Change]:
    if there.dtype not in ITEMSIZE or there.num_bytes > _MAX_COUNTED_BYTES:
        return []
    changes: list[Change] = []
    start = 0
    for piece in tensor_pieces(tensor):
        right = bytes(piece)
        found = read_tensor_bytes(temporary, there, start, start + len(right))
        if len(found) == len(right):
            first = start // ITEMSIZE[there.dtype]
            changes += changes_between(there.dtype, right, found, first)
        start += len(right)
    return changes
