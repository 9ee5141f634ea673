"""Words of samples, leaf by leaf; from the rows of a batch where torch itself made it of them.

Torch's own collate function copies tensors of one shape row by row, and writes into none: the rows
then hold the samples' bytes, and are hashed without a look at each sample.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import torch
import xxhash
from torch.utils.data import default_collate
from torch.utils.data._utils import collate as torch_collate

from everybit.core.contents import SampleWords
from everybit.probe.contents.words import (
    PLAIN,
    WHOLE_NUMBERS,
    fold,
    folded,
    header_of,
    is_plain,
    leaf_words,
    memory_of,
    seed_of,
    word_of_leaf,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_COPIES = getattr(torch_collate, "collate_tensor_fn", None)
#: A batch of rows of so many bytes is read once for both: each row, and then all, from the cache.
_TOGETHER_BYTES: Final = 1 << 16


def keeps_rows(collate: Callable[[Any], Any]) -> bool:
    """Whether a collate function is torch's own, with its own way to put tensors together."""
    ways = getattr(torch_collate, "default_collate_fn_map", {})
    return collate is default_collate and _COPIES is not None and ways.get(torch.Tensor) is _COPIES


def pairs_rows() -> bool:
    """Whether torch's own collate function leaves each part of a sample in the sample's row.

    A program may have registered another way for a type of its own.
    """
    ways = getattr(torch_collate, "default_collate_fn_map", {})
    return all(way.__module__ == torch_collate.__name__ for way in ways.values())


def sample_words(
    samples: Sequence[Any], batch: Any = None, leaf_words: dict[str, int] | None = None
) -> tuple[tuple[int, ...], SampleWords | None]:
    """Return the word of each sample, and the words of their leaves.

    Samples of one form, which most are, are gone through leaf by leaf.

    Args:
        samples: What the dataset gave, in order.
        batch: What a collate function that keeps their rows made of them; None where one made it
            that may do anything.
        leaf_words: Gets the words of those leaves of the batch that were read on the way, by path.

    Returns:
        `value_word` of each; and the words by leaf, None where the samples are not of one form.
    """
    columns = _columns(samples)
    if columns is None:
        return _one_by_one(samples)
    paths, keys, leaves = columns
    read = {} if leaf_words is None else leaf_words
    packed = _packed(
        [
            _column_words(
                column, batch[key] if type(batch) in (list, dict) else batch, (path, read)
            )
            for path, key, column in zip(paths, keys, leaves, strict=True)
        ]
    )
    return _folded(paths, packed), SampleWords(paths=paths, packed=packed)


def _packed(columns: list[list[int]]) -> bytes:
    """Return the words of all samples, one behind the other, from those of each leaf."""
    if len(columns) == 1:
        return array("Q", columns[0]).tobytes()
    packed = array("Q", bytes(8 * len(columns) * len(columns[0])))
    for place, column in enumerate(columns):
        packed[place :: len(columns)] = array("Q", column)
    return packed.tobytes()


def _folded(paths: tuple[str, ...], packed: bytes) -> tuple[int, ...]:
    """Return `fold` of the words of each sample."""
    seed, size = seed_of(paths), 8 * len(paths)
    hashed = xxhash.xxh3_64_intdigest
    held = memoryview(packed)
    found = [hashed(held[at : at + size], seed=seed) for at in range(0, len(held), size)]
    if bytes(size) in packed or 0 in found:  # Some sample may have no words at all.
        words = array("Q", packed)
        step = len(paths)
        found = [fold(words[at : at + step], seed) for at in range(0, len(words), step)]
    return tuple(found)


def _columns(
    samples: Sequence[Any],
) -> tuple[tuple[str, ...], Sequence[Any], list[list[Any]]] | None:
    """Return paths, keys, and the leaves of all samples; None where they are not of one form."""
    if not samples or not isinstance(samples, (list, tuple)):
        return None
    kind = type(samples[0])
    paths: tuple[str, ...]
    keys: Sequence[Any]
    if kind is tuple or kind is list:
        size = len(samples[0])
        if not 0 < size <= len(WHOLE_NUMBERS):
            return None
        if any(type(each) is not kind or len(each) != size for each in samples):
            return None
        paths, keys = WHOLE_NUMBERS[:size], range(size)
    elif kind is dict:
        paths = keys = tuple(samples[0])
        if not paths or any(type(path) is not str for path in paths):
            return None
        # Of other orders of keys nothing is said here.
        if any(type(each) is not dict or tuple(each) != paths for each in samples):
            return None
    elif kind in PLAIN:
        return (("",), ("",), [list(samples)]) if PLAIN.issuperset(map(type, samples)) else None
    else:
        return None
    columns = [[each[key] for each in samples] for key in keys]
    plain = all(PLAIN.issuperset(map(type, column)) for column in columns)
    return (paths, keys, columns) if plain else None


def _column_words(
    column: Sequence[Any], collated: Any, read: tuple[str, dict[str, int]]
) -> list[int]:
    if (
        type(collated) is torch.Tensor
        and collated.is_cpu
        and is_plain(collated)
        and collated.is_contiguous()
        and collated.nbytes
        and {*map(type, column)} == {torch.Tensor}
        and collated.shape == (len(column), *column[0].shape)
        and {each.dtype for each in column} == {collated.dtype}
    ):
        memory = memory_of(collated)
        seed = header_of(collated.dtype, collated.shape[1:])
        size = len(memory) // len(column)
        hashed = xxhash.xxh3_64_intdigest
        starts = range(0, len(memory), size)
        if size < _TOGETHER_BYTES:
            return [hashed(memory[at : at + size], seed=seed) for at in starts]
        whole = xxhash.xxh3_64(seed=header_of(collated.dtype, collated.shape))
        words = []
        for at in starts:
            row = memory[at : at + size]
            words.append(hashed(row, seed=seed))
            whole.update(row)
        path, known = read
        known[path] = whole.intdigest()
        return words
    return [word_of_leaf(leaf) for leaf in column]


def _one_by_one(samples: Sequence[Any]) -> tuple[tuple[int, ...], SampleWords | None]:
    found = [leaf_words(each) for each in samples]
    whole = tuple([folded(words) for words in found])
    paths = {tuple([path for path, _ in words]) for words in found}
    if len(paths) != 1 or not all(paths):
        return whole, None
    columns = zip(*([word for _, word in words] for words in found), strict=True)
    return whole, SampleWords.of(paths.pop(), columns)
