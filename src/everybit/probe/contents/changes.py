"""What a program does to its data set: what is written while samples are read, and what between.

Both are written in the process that reads, and both change what a sample is. The one is an
operation in place on the data set's own memory; the other is the loop's own doing: an epoch that it
sets, labels that it renews, a state that it keeps for each sample.
"""

from __future__ import annotations

import weakref
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from everybit.probe.contents.words import word_of_leaf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.probe.contents.survey import Survey

#: Objects whose attributes are looked at, attributes of each, and arrays.
MAX_HOLDERS: Final = 16
MAX_ATTRIBUTES: Final = 64
MAX_ARRAYS: Final = 32
#: Looks of a pass at which the bytes of NumPy's arrays are read, if they are not too many.
READ_LOOKS: Final = 2
READ_BYTES: Final = 1 << 26
_PLAIN: Final = frozenset((int, float, str, bool, complex, bytes, type(None)))

_Weak = weakref.ref[Any]


class Changes:
    """Compare a data set's attributes and arrays around each batch that this process reads.

    A look costs some microseconds: tensors are known by their version counters, objects by their
    identity, plain values by themselves. Arrays of NumPy's have no counter: their bytes are read
    for the first batches of a pass.

    Attributes:
        num_plain: Looks at which a plain attribute had been set between batches.
        num_other: The same of arrays that had been written, and of objects that had been replaced.
        last_set: What had been set at the last of both.
        within: How often each array was seen to be written while samples were read.
        between: How often each was seen to be written between.
    """

    def __init__(self) -> None:
        self.num_plain = self.num_other = 0
        self.last_set: tuple[str, ...] = ()
        self.within: Counter[str] = Counter()
        self.between: Counter[str] = Counter()
        self._holders: list[tuple[str, _Weak]] = []
        self._tensors: list[tuple[str, _Weak]] = []
        self._arrays: list[tuple[str, _Weak]] = []
        self._marks: list[Any] = []
        self._plain: dict[str, Any] = {}
        self._objects: dict[str, int] = {}
        self._written: dict[str, tuple[int, int]] = {}
        self._words: dict[str, tuple[int, int]] = {}
        self._num_looks = 0
        self._looked = False

    @property
    def version(self) -> tuple[int, int]:
        """How often plain attributes, and other things, were set between batches so far."""
        return self.num_plain, self.num_other

    def watch(self, found: Survey) -> None:
        """Look at what was found in the data set, from now on; to be called as a pass begins."""
        holders = list(found.holders.items())[:MAX_HOLDERS]
        arrays = list(found.arrays.items())[:MAX_ARRAYS]
        self._holders = [(path, weakref.ref(each)) for path, each in holders]
        self._tensors = [
            (path, weakref.ref(each))
            for path, each in arrays
            if isinstance(each, torch.Tensor) and not each.is_inference()
        ]
        self._arrays = [
            (path, weakref.ref(each))
            for path, each in arrays
            if isinstance(each, np.ndarray) and not isinstance(each, np.memmap)
        ]
        self._num_looks = 0
        self._marks = []
        self._moved()
        self._looked = True

    def begin(self) -> None:
        """Look before samples are read, or once a pass is over."""
        before = (self._plain, self._objects, self._written, self._words)
        if not self._moved() or not self._looked:
            return
        plain = _differing(before[0], self._plain)
        written = {*_rewritten(before[2], self._written), *_rewritten(before[3], self._words)}
        other = [*_differing(before[1], self._objects), *sorted(written)]
        self.between.update(written)
        self.num_plain += bool(plain)
        self.num_other += bool(other)
        self.last_set = (*plain, *other) or self.last_set

    def end(self) -> None:
        """Look when samples were read."""
        before = (self._written, self._words)
        if self._moved():
            self.within.update(
                {*_rewritten(before[0], self._written), *_rewritten(before[1], self._words)}
            )
        self._num_looks += 1

    def _moved(self) -> bool:
        """Look; whether anything may be another than at the last look.

        Nearly always all objects are the same and no counter has moved: that is seen first.
        """
        held = [getattr(reference(), "__dict__", None) for _, reference in self._holders]
        found = [each for _, reference in self._tensors if (each := reference()) is not None]
        marks: list[Any] = [tuple(map(id, each.values())) for each in held if type(each) is dict]
        marks += [each._version for each in found]
        if marks == self._marks and self._num_looks >= READ_LOOKS:
            self._words = {}
            return False
        self._marks = marks
        self._plain, self._objects = self._attributes(held)
        self._written = {
            path: (id(tensor), tensor._version)
            for path, reference in self._tensors
            if (tensor := reference()) is not None
        }
        self._words = self._read() if self._num_looks < READ_LOOKS else {}
        return True

    def _attributes(self, held: Sequence[Any]) -> tuple[dict[str, Any], dict[str, int]]:
        # Plain values are kept, so that no other one is given their identity meanwhile.
        plain: dict[str, Any] = {}
        objects: dict[str, int] = {}
        for (path, _), attributes in zip(self._holders, held, strict=True):
            if type(attributes) is not dict:
                continue
            for name, value in islice(attributes.items(), MAX_ATTRIBUTES):
                if type(value) in _PLAIN:
                    plain[f"{path}.{name}"] = value
                else:
                    objects[f"{path}.{name}"] = id(value)
        return plain, objects

    def _read(self) -> dict[str, tuple[int, int]]:
        arrays = {
            path: array for path, reference in self._arrays if (array := reference()) is not None
        }
        if sum(int(array.nbytes) for array in arrays.values()) > READ_BYTES:
            return {}
        return {path: (id(array), word_of_leaf(array)) for path, array in arrays.items()}


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names whose values differ, or that are new."""
    if before == now:
        return []
    return [name for name, value in now.items() if name not in before or before[name] != value]


def _rewritten(
    before: Mapping[str, tuple[int, int]], now: Mapping[str, tuple[int, int]]
) -> list[str]:
    """Return the arrays that are the same objects and were written."""
    if before == now:
        return []
    return [
        path
        for path, (identity, mark) in now.items()
        if path in before and before[path][0] == identity and before[path][1] != mark
    ]


_all: Final[dict[int, tuple[_Weak, Changes]]] = {}


def changes_of(dataset: Any) -> Changes:
    """Return what is known of a data set in this process: one for all who read it."""
    known = _all.get(id(dataset))
    if known is not None and known[0]() is dataset:
        return known[1]
    found, place = Changes(), id(dataset)
    try:
        reference = weakref.ref(dataset, lambda _: _all.pop(place, None))
    except TypeError:  # A list: it has no attributes, and its items are not looked at.
        return found
    _all[place] = reference, found
    return found
