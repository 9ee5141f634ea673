"""Digest words of the leaves of a sample or batch: tensors, arrays, numbers, text, images."""

from __future__ import annotations

import ctypes
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import xxhash

from everybit.probe.digest import flatten, plain_word, readable
from everybit.probe.memory import row_major

if TYPE_CHECKING:
    from collections.abc import Iterable

Leaves = list[tuple[str, int]]
#: A batch of more bytes is large: hashing it costs more than all else that is done to it.
LARGE_BYTES: Final = 1 << 20
_SIZED: Final = (torch.Tensor, np.ndarray)
_PLAIN: Final = frozenset((torch.Tensor, int, float, bool, str, np.ndarray, np.float64, np.int64))


def leaf_words(value: Any) -> Leaves:
    """Return `(path, 64-bit word)` of the leaves of a sample or batch; 0 for one with no digest."""
    entries: Iterable[tuple[Any, Any]]
    if type(value) in (tuple, list):
        entries = enumerate(value)
    elif type(value) is dict:
        entries = value.items()
    else:
        return [(path, word_of_leaf(leaf)) for path, leaf in flatten(value)]
    words: Leaves = []
    for key, item in entries:
        if type(item) in _PLAIN:  # Most are: nothing within them to look for.
            words.append((str(key), word_of_leaf(item)))
        else:
            words += [(path, word_of_leaf(leaf)) for path, leaf in flatten(item, str(key), 1)]
    return words


def bytes_of(value: Any) -> int:
    """Return the bytes of the tensors and arrays of a sample or batch."""
    sizes = (leaf.nbytes for _, leaf in flatten(value) if isinstance(leaf, _SIZED))
    return sum(map(int, sizes))


def folded(leaves: Leaves) -> int:
    """Return one word (XXH3-64) for all leaves; 0 where none has a digest."""
    if not leaves:
        return 0
    paths, words = zip(*leaves, strict=True)
    if not any(words):
        return 0
    return xxhash.xxh3_64_intdigest(array("Q", words), seed=_paths(paths)) or 1


@lru_cache(maxsize=256)
def _paths(paths: tuple[str, ...]) -> int:
    return xxhash.xxh3_64_intdigest("\n".join(paths).encode())


def word_of_leaf(leaf: Any) -> int:
    """Return the word of one value; 0 where it has none."""
    if isinstance(leaf, torch.Tensor):
        return _tensor(leaf)
    if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
        flat = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
        return xxhash.xxh3_64_intdigest(flat.data, seed=_header(leaf.dtype.str, leaf.shape))
    plain = plain_word(leaf)
    if plain is not None:
        return plain
    if type(leaf).__module__.startswith("PIL.") and hasattr(leaf, "tobytes"):
        return xxhash.xxh3_64_intdigest(leaf.tobytes(), seed=_header(leaf.mode, leaf.size))
    return 0


def _tensor(tensor: torch.Tensor) -> int:
    """Return the XXH3-64 of a CPU tensor's elements in row-major order, seeded with its form.

    They are read at their address: an array of NumPy's would keep the program from resizing them.
    """
    if not tensor.is_cpu or not readable(tensor):
        return 0
    plain = tensor
    if not plain.is_contiguous() or plain.is_conj() or plain.is_neg():
        plain = row_major(tensor.detach())
    size = plain.nbytes
    seed = _header(plain.dtype, plain.shape)
    if not size:
        return xxhash.xxh3_64_intdigest(b"", seed=seed)
    held = _bytes(size).from_address(plain.data_ptr())
    return xxhash.xxh3_64_intdigest(held, seed=seed)


@lru_cache(maxsize=256)
def _bytes(size: int) -> type[ctypes.Array[ctypes.c_ubyte]]:
    return ctypes.c_ubyte * size


@lru_cache(maxsize=256)
def _header(kind: Any, shape: tuple[int, ...]) -> int:
    return xxhash.xxh3_64_intdigest(f"{kind}{tuple(shape)}".encode())
