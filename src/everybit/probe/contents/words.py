"""Digest words of samples and batches and of their leaves: tensors, arrays, numbers, text, images.

There is one word of a sample or batch: `value_word`, which folds those of its leaves.
"""

from __future__ import annotations

import ctypes
import dataclasses
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import xxhash

from everybit.core.dtype import ITEMSIZE
from everybit.probe.digest import flatten, plain_word, readable
from everybit.probe.memory import dtype_name, row_major

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Words = list[tuple[str, int]]
Leaves = list[tuple[str, Any]]
#: A batch of more bytes is large: hashing it costs more than all else that is done to it.
LARGE_BYTES: Final = 1 << 20
_SIZED: Final = (torch.Tensor, np.ndarray)
#: Types of values that hold nothing to look into.
PLAIN: Final = frozenset((torch.Tensor, int, float, bool, str, np.ndarray, np.float64, np.int64))
#: Objects within objects that are looked into.
_MAX_DEPTH: Final = 4
#: Paths within lists and tuples.
WHOLE_NUMBERS: Final = tuple(map(str, range(256)))
_DTYPES: Final = frozenset(
    each
    for each in vars(torch).values()
    if isinstance(each, torch.dtype) and dtype_name(each) in ITEMSIZE
)
#: What a dtype and a shape come to, in `_header`; looked up by themselves, for they are many.
_headers: dict[tuple[Any, Any], int] = {}
_MAX_HEADERS: Final = 4096


def leaves_of(value: Any) -> Leaves:
    """Return `(path, leaf)` of a sample or batch, as `flatten` does; most are flat, and are quick.

    >>> leaves_of({"ids": 3, "rest": (1, 2)})
    [('ids', 3), ('rest.0', 1), ('rest.1', 2)]
    """
    entries: Iterable[tuple[Any, Any]]
    kind = type(value)
    if kind is tuple or kind is list:
        few = len(value) <= len(WHOLE_NUMBERS)
        entries = zip(WHOLE_NUMBERS, value, strict=False) if few else enumerate(value)
    elif kind is dict:
        entries = value.items()
    else:
        return list(flatten(value))
    leaves: Leaves = []
    for key, item in entries:
        if type(item) in PLAIN:  # Most are: nothing within them to look for.
            leaves.append((key if type(key) is str else str(key), item))
        else:
            leaves += flatten(item, str(key), 1)
    return leaves


def words_of(leaves: Leaves) -> Words:
    """Return `(path, 64-bit word)` of leaves; 0 for one with no digest."""
    return [(path, word_of_leaf(leaf)) for path, leaf in leaves]


def leaf_words(value: Any) -> Words:
    """Return `(path, 64-bit word)` of the leaves of a sample or batch; 0 for one with no digest."""
    return words_of(leaves_of(value))


def value_word(value: Any) -> int:
    """Return the word of a sample or batch (XXH3-64); 0 where nothing of it can be read.

    The same for equal values, on the CPU, whatever their strides. Nothing is waited for: a tensor
    on an accelerator has no word.
    """
    return folded(leaf_words(value))


def bytes_of(leaves: Leaves) -> int:
    """Return the bytes of the tensors and arrays among leaves; of sparse ones nothing is known."""
    sized = [leaf for _, leaf in leaves if isinstance(leaf, _SIZED)]
    try:
        return sum([leaf.nbytes for leaf in sized])
    except RuntimeError:
        return sum([size_of(leaf) for leaf in sized])


def size_of(leaf: Any) -> int:
    """Return the bytes of a tensor or array; 0 for one that has no single run of them."""
    try:
        return int(leaf.nbytes)
    except RuntimeError:
        return 0


def folded(words: Words) -> int:
    """Return one word (XXH3-64) for all leaves; 0 where none has a digest."""
    if not words:
        return 0
    paths, found = zip(*words, strict=True)
    return fold(found, seed_of(paths))


def fold(words: Sequence[int], seed: int) -> int:
    """Return one word for those of several leaves; 0 where none has a digest."""
    if not any(words):
        return 0
    return xxhash.xxh3_64_intdigest(array("Q", words), seed=seed) or 1


@lru_cache(maxsize=256)
def seed_of(paths: tuple[str, ...]) -> int:
    """Return what the words of leaves at these paths are folded with."""
    return xxhash.xxh3_64_intdigest("\n".join(paths).encode("utf-8", "surrogatepass"))


def word_of_leaf(leaf: Any, depth: int = 0) -> int:
    """Return the word of one value; 0 where it has none.

    Args:
        leaf: The value.
        depth: Objects that it lies within.
    """
    kind = type(leaf)
    if kind is torch.Tensor or isinstance(leaf, torch.Tensor):
        return _tensor(leaf)
    if kind is int:
        return _whole_number(leaf)
    if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
        flat = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
        return xxhash.xxh3_64_intdigest(flat.data, seed=_header(leaf.dtype.str, leaf.shape))
    if isinstance(leaf, (bytes, bytearray)):
        return xxhash.xxh3_64_intdigest(leaf, seed=_header("bytes", ()))
    plain = plain_word(leaf)
    return _object(leaf, depth) if plain is None else plain


def _object(value: Any, depth: int) -> int:
    """Return the word of an image, of a data class, or of a mapping of another kind."""
    if type(value).__module__.startswith("PIL.") and hasattr(value, "tobytes"):
        return xxhash.xxh3_64_intdigest(value.tobytes(), seed=_header(value.mode, value.size))
    parts: Any = None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: getattr(value, each.name, None) for each in dataclasses.fields(value)}
    elif isinstance(held := getattr(value, "__dict__", None), dict):
        parts = held.get("data")  # Batches of tokenizers keep theirs there.
    if not isinstance(parts, dict) or depth >= _MAX_DEPTH:
        return 0
    return folded([(path, word_of_leaf(leaf, depth + 1)) for path, leaf in flatten(parts)])


@lru_cache(maxsize=4096)
def _whole_number(number: int) -> int:
    return plain_word(number) or 0


def _tensor(tensor: torch.Tensor) -> int:
    """Return the XXH3-64 of a CPU tensor's elements in row-major order, seeded with its form.

    They are read at their address: an array of NumPy's would keep the program from resizing them.
    """
    if not tensor.is_cpu or not (is_plain(tensor) or readable(tensor)):
        return 0
    if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj():
        tensor = row_major(tensor.detach())
    size = tensor.nbytes
    address = tensor.data_ptr()
    if not address:
        empty = xxhash.xxh3_64_intdigest(b"", seed=header_of(tensor.dtype, tensor.shape))
        return 0 if size else empty
    memory = _bytes(size).from_address(address)
    return xxhash.xxh3_64_intdigest(memory, header_of(tensor.dtype, tensor.shape))


def memory_of(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor where they lie; not to be kept."""
    return memoryview(_bytes(tensor.nbytes).from_address(tensor.data_ptr()))


def header_of(dtype: torch.dtype, shape: torch.Size) -> int:
    """Return what the words of tensors of one form are seeded with."""
    form = (dtype, shape)
    seed = _headers.get(form)
    if seed is None:
        seed = _header(dtype, shape)
        if len(_headers) < _MAX_HEADERS:
            _headers[form] = seed
    return seed


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is readable by the few looks that settle it for most; another may be, too."""
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and tensor.dtype in _DTYPES
        and not tensor.is_nested
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


@lru_cache(maxsize=256)
def _bytes(size: int) -> type[ctypes.Array[ctypes.c_ubyte]]:
    return ctypes.c_ubyte * size


@lru_cache(maxsize=256)
def _header(kind: Any, shape: tuple[int, ...]) -> int:
    return xxhash.xxh3_64_intdigest(f"{kind}{tuple(shape)}".encode())
