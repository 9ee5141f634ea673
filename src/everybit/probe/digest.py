"""Recorded digests of tensors: the `grid` word, whatever the device, and nests of inputs."""

from __future__ import annotations

from collections import UserDict
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from everybit.core.digest import Algorithm, Digest
from everybit.core.grid import ROW_BYTES, header_word
from everybit.probe.grid_device import device_digest
from everybit.probe.memory import TensorMemory, row_major, why_unreadable
from everybit.probe.sums import sum_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import torch

_MAX_DEPTH = 8


def grid_words(tensors: Sequence[torch.Tensor]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the grid digest word of each CPU tensor (uint64, one a tensor), in one batch.

    Raises:
        ValueError: A tensor has no readable bytes.
    """
    memories = [TensorMemory.of(row_major(tensor)) for tensor in tensors]
    layout = sum_layout([(m.dtype, tuple(m.tensor.shape), m.num_bytes) for m in memories])
    vector = layout.new_vector()
    for index, memory in enumerate(memories):
        if memory.num_bytes > ROW_BYTES:
            layout.fill(vector, index, memory.bytes_())
    layout.fill_small(vector, [memories[index].copy() for index in layout.small])
    return layout.digests(vector)


def memory_words(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the XXH3-64 of each CPU tensor's canonical bytes, seeded with its header word.

    Half the cost of `grid`, for values that are compared on one kind of device only.

    Raises:
        ValueError: A tensor has no readable bytes.
    """
    words = []
    for tensor in tensors:
        memory = TensorMemory.of(tensor if tensor.is_contiguous() else tensor.contiguous())
        seed = header_word(memory.dtype, tuple(tensor.shape))
        words.append(xxhash.xxh3_64_intdigest(memory.bytes_().data, seed=seed))
    return words


def grid_of(tensor: torch.Tensor) -> Digest:
    """Return the recorded `grid` digest of one tensor on any device (a sync on accelerators).

    Raises:
        ValueError: The tensor has no readable bytes.
    """
    tensor = tensor.detach()
    if tensor.device.type == "cpu":
        word = int(grid_words([tensor])[0])
    else:
        word = int(device_digest(tensor).item()) % (1 << 64)
    return Digest(Algorithm.GRID, f"{word:016x}")


def flatten(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield `(dotted path, leaf)` of nested lists, tuples and dictionaries.

    Other sequences and mappings are leaves: to read an item of theirs may run any code.
    """
    entries: Iterable[tuple[Any, Any]]
    if depth > _MAX_DEPTH:
        entries = ()
    elif isinstance(value, dict):
        entries = dict.items(value)
    elif isinstance(value, UserDict) and isinstance(value.__dict__.get("data"), dict):
        entries = dict.items(value.data)
    elif isinstance(value, list):
        entries = enumerate(list.__iter__(value))
    elif isinstance(value, tuple):
        entries = enumerate(tuple.__iter__(value))
    else:
        yield path, value
        return
    for key, item in entries:
        yield from flatten(item, f"{path}.{key}" if path else str(key), depth + 1)


def plain_word(value: Any) -> int | None:
    """Return a digest word for a number, text or None; None for an object without a value."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return xxhash.xxh3_64_intdigest(f"{type(value).__name__}:{value!r}".encode())
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        header = f"ndarray:{value.dtype.str}{value.shape}".encode()
        return xxhash.xxh3_64_intdigest(header + np.ascontiguousarray(value).tobytes())
    return None


def readable(tensor: torch.Tensor) -> bool:
    """Whether a digest can be taken of the tensor."""
    return not why_unreadable(tensor)
