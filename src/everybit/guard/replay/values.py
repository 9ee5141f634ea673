"""Nests of inputs and outputs: their tensors, digests of these, and copies cut off from a graph."""

from __future__ import annotations

import copy
import dataclasses
from collections import UserDict
from typing import TYPE_CHECKING, Any

import torch
import xxhash

from everybit.guard.readout import read_words
from everybit.probe.digest import memory_words, plain_word, readable
from everybit.probe.grid_device import device_digest
from everybit.probe.memory import is_dense, version
from everybit.probe.quick_word import is_plain, word_in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from everybit.guard.readout import Word

_MAX_DEPTH = 8
#: Larger gradients that come into a call are held themselves, not copied.
_MAX_COPY_BYTES = 64 << 20


class LaidOut(int):
    """The digest word of a tensor's bytes in memory order, where that is not row-major order.

    Attributes:
        strides: How the tensor lies; two that lie otherwise are not compared.
    """

    strides: tuple[int, ...]


def word_of(tensor: torch.Tensor | None) -> Word | None:
    """Return a digest word of a tensor's bytes; None where it has none that can be read.

    XXH3 on the CPU; on accelerators the `grid` word as a 0-d int64 tensor there, with no sync.
    """
    if tensor is None:
        return None
    if is_plain(tensor):
        return _quick_word(tensor)
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        parts = [word_of(tensor._indices()), word_of(tensor._values())]
        if not all(isinstance(part, int) for part in parts):
            return None
        return xxhash.xxh3_64_intdigest(f"{parts}{tuple(tensor.shape)}".encode())
    if not readable(tensor):
        return None
    if tensor.device.type == "cpu":
        return memory_words([tensor])[0]
    return device_digest(tensor)


def on_host(words: Sequence[Word | None]) -> list[Word | None]:
    """Return digest words with those of accelerators brought to the host, one transfer a device."""
    asked = [word for word in words if word is not None and not isinstance(word, int)]
    read = iter(read_words(asked))
    return [word if word is None or isinstance(word, int) else next(read) for word in words]


def differ(one: Word | None, other: Word | None) -> bool:
    """Whether two digest words that are on the host tell of different bytes."""
    if one is None or other is None or one == other:
        return False
    return getattr(one, "strides", None) == getattr(other, "strides", None)


def _quick_word(tensor: torch.Tensor) -> Word | None:
    in_order = tensor.is_contiguous()
    if not in_order and not is_dense(tensor):
        tensor = tensor.detach().contiguous()
        in_order = True
    word = word_in_place(tensor)
    if in_order or word is None:
        return word
    laid = LaidOut(word)
    laid.strides = tensor.stride()
    return laid


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield `(dotted path, leaf)` of nested lists, tuples, mappings and dataclasses."""
    entries = None if depth > _MAX_DEPTH else _entries(value)
    if entries is None:
        yield path, value
        return
    for key, item in entries:
        yield from leaves(item, f"{path}.{key}" if path else str(key), depth + 1)


def tensors_in(value: Any) -> list[tuple[str, torch.Tensor]]:
    """Return `(dotted path, tensor)` of a nest; of other objects, what their attributes hold."""
    found = []
    for path, leaf in leaves(value):
        if isinstance(leaf, torch.Tensor):
            found.append((path, leaf))
        elif not isinstance(leaf, torch.nn.Module) and hasattr(leaf, "__dict__"):
            held = {k: v for k, v in vars(leaf).items() if isinstance(v, torch.Tensor)}
            found += [(f"{path}.{key}" if path else key, each) for key, each in held.items()]
    return found


def shape_of(value: Any) -> tuple[tuple[str, int], ...]:
    """Return what tells whether a nest was changed: the paths and identities of its leaves."""
    return tuple((path, id(leaf)) for path, leaf in leaves(value))


def why_unrepeatable(args: Any, kwargs: Any) -> str:
    """Return why inputs cannot be given a second time, "" where they can.

    An object of another kind than tensors, numbers and text may be changed by the call (a cache of
    keys and values, say).
    """
    for path, leaf in leaves((list(args), dict(kwargs))):
        if isinstance(leaf, torch.Tensor):
            if leaf.is_sparse or leaf.is_nested or readable(leaf):
                continue
            return f"the bytes of its input {path.partition('.')[2]} cannot be read"
        if plain_word(leaf) is None and not isinstance(
            leaf, (torch.dtype, torch.device, torch.Size, range, slice, type, type(Ellipsis))
        ):
            where, kind = path.partition(".")[2], type(leaf).__name__
            return f"its input {where} is a {kind}, which the call may change"
    return ""


def cut_off(value: Any) -> Any:
    """Return inputs whose tensors lead to no graph outside; the same objects where none do."""
    known: dict[int, torch.Tensor] = {}

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.requires_grad:
            return tensor
        if id(tensor) not in known:
            known[id(tensor)] = tensor.detach().requires_grad_()
        return known[id(tensor)]

    if not any(isinstance(t, torch.Tensor) and t.requires_grad for _, t in leaves(value)):
        return value
    return _mapped(value, cut)


def kept(gradient: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return a gradient to be kept: a copy, since autograd adds in place to what only it holds."""
    gradient = gradient.detach()
    small = gradient.numel() * gradient.element_size() <= _MAX_COPY_BYTES
    # A copy of one number shown many times would lie otherwise, and be computed with otherwise.
    if small and gradient.layout is torch.strided and is_dense(gradient):
        gradient = gradient.clone()
    return gradient, version(gradient)


def _entries(value: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(value, dict):
        return list(dict.items(value))
    if isinstance(value, UserDict) and isinstance(value.__dict__.get("data"), dict):
        return list(dict.items(value.data))
    if isinstance(value, list):
        return list(enumerate(list.__iter__(value)))
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return list(enumerate(tuple.__iter__(value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value)]
    return None


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a nest with its tensors changed, of the same types."""
    if isinstance(value, torch.Tensor):
        return change(value)
    entries = _entries(value)
    if entries is None:
        return value
    items = [(key, _mapped(item, change)) for key, item in entries]
    if all(new is old for (_, new), (_, old) in zip(items, entries, strict=True)):
        return value
    if isinstance(value, (dict, UserDict)):
        again: Any = copy.copy(value)
        for key, item in items:
            again[key] = item
        return again
    if isinstance(value, list):
        return [item for _, item in items]
    if isinstance(value, tuple):
        kind = type(value)
        made = [item for _, item in items]
        return kind(*made) if hasattr(kind, "_fields") else tuple(made)
    again = copy.copy(value)
    for key, item in items:
        object.__setattr__(again, key, item)
    return again
