"""Which other tensor holds the bytes of this one: exchanged, renamed and tied tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import xxhash

from everybit.diff.stored import SideBySide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.diff.stored import StoredTensor

_PIECE: Final = 4096
_MAX_TRIED: Final = 4

Key = tuple[str, tuple[int, ...], bytes]


class Partners:
    """Tensors by a sample of their bytes; a match is then proven by reading both.

    Args:
        tensors: Among which to look. Those that are of one value throughout, as norms and biases
            often are, say nothing by being equal and are left out.
    """

    def __init__(self, tensors: Iterable[StoredTensor]) -> None:
        self._by_key: dict[Key, list[StoredTensor]] = {}
        for each in tensors:
            key = _sample(each)
            if key is not None:
                self._by_key.setdefault(key, []).append(each)

    def find(self, wanted: StoredTensor) -> StoredTensor | None:
        """Return a tensor of the same dtype, shape and bytes, or None."""
        key = _sample(wanted)
        if key is None:
            return None
        for each in self._by_key.get(key, ())[:_MAX_TRIED]:
            if each is not wanted and holds_same(each, wanted):
                return each
        return None

    def like(self, wanted: StoredTensor) -> list[StoredTensor]:
        """Return the tensors that have the sample, the dtype and the shape of another."""
        key = _sample(wanted)
        return [] if key is None else list(self._by_key.get(key, ()))

    def num_like(self, wanted: StoredTensor) -> int:
        """Return how many there are."""
        return len(self.like(wanted))


def holds_same(a: StoredTensor, b: StoredTensor) -> bool:
    """Return whether two tensors of one dtype and shape hold equal bytes."""
    if a.held != a.num_bytes or b.held != b.num_bytes or a.num_bytes != b.num_bytes:
        return False
    return next(SideBySide(a, b).differing(), None) is None


def of_interest(
    tensors: Sequence[StoredTensor], wanted: Iterable[StoredTensor]
) -> list[StoredTensor]:
    """Return the tensors that share dtype and shape with one of the wanted ones."""
    forms = {(each.dtype, each.shape) for each in wanted}
    return [each for each in tensors if (each.dtype, each.shape) in forms]


def _sample(tensor: StoredTensor) -> Key | None:
    size = tensor.num_bytes
    if tensor.unreadable or not size or tensor.held != size:
        return None
    middle = size // 2 // _PIECE * _PIECE
    starts = sorted({0, middle, max(0, size - _PIECE)})
    pieces = [tensor.read(start, min(start + _PIECE, size)) for start in starts]
    step = tensor.itemsize
    first = pieces[0][:step]
    if all(piece == first * (len(piece) // step) for piece in pieces if len(piece) % step == 0):
        return None
    return tensor.dtype, tensor.shape, xxhash.xxh3_128_digest(b"".join(pieces))
