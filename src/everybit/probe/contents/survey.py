"""What a dataset holds: generators, handles, label maps, arrays, further datasets.

Only instance dictionaries, lists, tuples, dictionaries, partial functions and closures are looked
into: no property is asked, nothing is called.
"""

from __future__ import annotations

import functools
import inspect
import io
import random
import sys
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch.utils.data import Dataset

from everybit.probe.contents.handles import is_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How deep and how wide is looked: a transform within a chain within a subset within a union.
MAX_DEPTH: Final = 8
MAX_ENTRIES: Final = 64
MAX_OBJECTS: Final = 4000
#: A map from labels to numbers is as large as this at most.
MAX_LABELS: Final = 100_000

_GENERATORS: Final = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    random.Random,
    torch.Generator,
)
_LEAVES: Final = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)
_MAPS: Final = ("to_idx", "to_id", "2id", "2idx", "stoi", "vocab", "label_map", "mapping")

_LISTS: Final = ("classes", "class_names", "label_names")


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found, by dotted path from the dataset.

    Attributes:
        generators: Random generators.
        handles: Open files, sockets and database connections.
        maps: Maps from labels to numbers, and lists of classes as such maps.
        arrays: Arrays and tensors on the CPU.
        datasets: The dataset, and those within it.
        holders: The dataset and the objects within it that hold attributes.
    """

    generators: dict[str, Any] = field(default_factory=dict)
    handles: dict[str, Any] = field(default_factory=dict)
    maps: dict[str, dict[str, int]] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    datasets: dict[str, Any] = field(default_factory=dict)
    holders: dict[str, Any] = field(default_factory=dict)


def survey(dataset: Any) -> Survey:
    """Look a dataset through; costs about a millisecond, once an epoch and process."""
    found = Survey()
    found.datasets["dataset"] = dataset
    if _holds_attributes(dataset):
        found.holders["dataset"] = dataset
    for path, value in _walk(dataset, "dataset"):
        if _holds_attributes(value):
            found.holders[path] = value
        if isinstance(value, _GENERATORS) and not isinstance(value, random.SystemRandom):
            found.generators[path] = value
        elif isinstance(value, (np.ndarray, torch.Tensor)):
            if isinstance(value, np.ndarray) or value.device.type == "cpu":
                found.arrays[path] = value
        elif _is_handle(value):
            found.handles[path] = value
        elif isinstance(value, Dataset) and value is not dataset:
            found.datasets[path] = value
        else:
            labels = _labels_of(path.rpartition(".")[2], value)
            if labels:
                found.maps[path] = labels
    for name, value in _named_in_code(dataset):
        found.generators[f"global {name}"] = value
    return found


def _walk(root: Any, name: str) -> Iterator[tuple[str, Any]]:
    seen = {id(root)}
    waiting = [(name, root, 0)]
    num_looked = 0
    while waiting and num_looked < MAX_OBJECTS:
        path, holder, depth = waiting.pop()
        for key, value in _entries(holder):
            if isinstance(value, _LEAVES) or id(value) in seen:
                continue
            seen.add(id(value))
            num_looked += 1
            inner = f"{path}.{key}"
            yield inner, value
            if depth < MAX_DEPTH:
                waiting.append((inner, value, depth + 1))


def _entries(holder: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, as far as it is worth a look."""
    if isinstance(holder, (*_GENERATORS, np.ndarray, torch.Tensor, io.IOBase)):
        return
    if isinstance(holder, dict):
        for key in list(dict.keys(holder))[:MAX_ENTRIES]:
            yield str(key), dict.get(holder, key)
    elif isinstance(holder, (list, tuple)):
        for place, value in enumerate(holder[:MAX_ENTRIES]):
            yield str(place), value
    elif isinstance(holder, functools.partial):
        yield "func", holder.func
        yield from ((str(place), value) for place, value in enumerate(holder.args))
        yield from holder.keywords.items()
    elif isinstance(holder, types.MethodType):
        yield "self", holder.__self__
    elif isinstance(holder, types.FunctionType):
        names = holder.__code__.co_freevars
        for name, cell in zip(names, holder.__closure__ or (), strict=False):
            try:
                yield name, cell.cell_contents
            except ValueError:  # Not filled yet.
                continue
    else:
        held = getattr(holder, "__dict__", None)
        if isinstance(held, dict):
            yield from list(held.items())


def _holds_attributes(value: Any) -> bool:
    """Whether it has attributes that a program sets, and can be held weakly."""
    if isinstance(value, (*_GENERATORS, np.ndarray, torch.Tensor, io.IOBase, types.FunctionType)):
        return False
    if not isinstance(getattr(value, "__dict__", None), dict):
        return False
    return getattr(type(value), "__weakrefoffset__", 0) != 0


def _is_handle(value: Any) -> bool:
    if is_connection(value):
        return True
    if isinstance(value, io.IOBase):
        try:
            return not value.closed and value.fileno() >= 0
        except (OSError, ValueError):
            return False  # In memory.
    lmdb = sys.modules.get("lmdb")
    return lmdb is not None and isinstance(value, lmdb.Environment)


def _labels_of(name: str, value: Any) -> dict[str, int]:
    """Return a map from labels to numbers; a list of classes counts as one."""
    if isinstance(value, dict) and 0 < len(value) <= MAX_LABELS:
        if not any(part in name.lower() for part in _MAPS):
            return {}
        if all(type(key) is str and type(number) is int for key, number in value.items()):
            return dict(value)
    if name not in _LISTS or not isinstance(value, (list, tuple)) or len(value) > MAX_LABELS:
        return {}
    labelled = all(type(label) is str for label in value)
    return {label: place for place, label in enumerate(value)} if labelled else {}


def _named_in_code(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Yield the generators that the code of `__getitem__` names among its module's globals."""
    for kind in ("__getitem__", "__iter__"):
        function = inspect.unwrap(getattr(type(dataset), kind, None) or _named_in_code)
        if isinstance(function, types.FunctionType):
            for name in function.__code__.co_names:
                value = function.__globals__.get(name)
                if isinstance(value, _GENERATORS):
                    yield name, value
