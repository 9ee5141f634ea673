"""Arrays that joblib writes raw into the stream, between the opcodes of its pickle.

Its unpickler, on BUILD of a `NumpyArrayWrapper`, reads the elements (or a pickle of them, where
they are objects) from the file itself and goes on with the opcodes behind them.
"""

from __future__ import annotations

import math
import re
from typing import Final

from everybit.files.pickles.constants import as_string
from everybit.files.pickles.handed import find_handed
from everybit.files.pickles.machine import Machine
from everybit.files.pickles.nodes import (
    Call,
    DictNode,
    Global,
    ListNode,
    Node,
    Persistent,
    Pickle,
    TupleNode,
)
from everybit.files.pickles.opcodes import MAX_STEPS, follow

_WRAPPER: Final = ".numpy_pickle.NumpyArrayWrapper"
_LAST: Final = "NumpyArrayWrapper"
_KIND: Final = re.compile(r"[<>|=]?([biufcSUVmMOT])(\d{0,9})\Z")
#: Calls that make an object of the class that they are given.
_MAKERS: Final = frozenset(
    {"copyreg._reconstructor", "copy_reg._reconstructor", "copyreg.__newobj__"}
)
_UNIT_BYTES: Final = {"U": 4}
_MAX_FIELDS: Final = 1000
_HAS_OBJECTS: Final = 1

#: What an array of Python objects is told as.
OBJECTS: Final = -1
#: What stands on the stack where joblib has put an array in the place of its wrapper.
ARRAY: Final = "an array of joblib's"


class ArrayMachine(Machine):
    """A machine that reads as joblib does; `inner` has the pickles of arrays of objects."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        super().__init__(data, start, forgiving=True)
        self.inner: list[Pickle] = []

    def build(self) -> None:
        """BUILD; behind that of a wrapper come the elements."""
        super().build()
        target, state = self.made.builds[-1]
        if not is_wrapper(target):
            return
        self.stack[-1] = Persistent(ARRAY)
        measured = measure_array(state)
        if measured is None:
            raise self.error("holds an array that joblib does not write", self.at - 1)
        num_bytes, padded = measured
        if num_bytes == OBJECTS:
            self.read_objects()
            return
        if padded:
            self.take(self.take(1, framed=False)[0], framed=False)
        if num_bytes > len(self.data) - self.at:
            raise self.ended("ends within an array", self.at)
        self.at += num_bytes

    def read_objects(self) -> None:
        """Follow the pickle that holds an array of objects."""
        machine = Machine(self.data, self.at, forgiving=True)
        error, _ = follow(machine, MAX_STEPS)
        self.inner.append(machine.record(None, error) if error else machine.result())
        if error is not None:
            raise error
        self.at = machine.at


def names_wrapper(node: Node) -> bool:
    """Return whether a global is joblib's wrapper."""
    return isinstance(node, Global) and f".{node.qualified}".endswith(_WRAPPER)


def is_wrapper(target: Node) -> bool:
    """Return whether a node is an instance of joblib's wrapper."""
    if not isinstance(target, Call):
        return False
    made_by = target.arguments[:1] if target.name in _MAKERS else [target.function]
    return any(names_wrapper(node) for node in made_by)


def hides_wrapper(pickle: Pickle) -> bool:
    """Return whether joblib's wrapper is made by other ways than picklers make objects.

    Its reader takes raw elements behind such a one, and nobody else can know that.
    """
    for node in pickle.globals:
        if node.name.endswith(_LAST):
            break
    else:
        return False  # as nearly all do
    named = [node for node in pickle.globals if names_wrapper(node)]
    if not named:
        return False
    handed = find_handed(pickle, but_first_of=_MAKERS)
    return any(id(node) in handed for node in named)


def measure_array(state: Node) -> tuple[int, bool] | None:
    """Return how many bytes a wrapper's elements take, and whether padding comes first.

    Returns:
        `OBJECTS` in place of the bytes where a pickle follows; None where its state cannot be
        understood.
    """
    if not isinstance(state, DictNode):
        return None
    fields = {as_string(key): value for key, value in state.pairs}
    shape = fields.get("shape")
    size = _itemsize(fields.get("dtype"))
    if not isinstance(shape, (TupleNode, ListNode)) or size is None:
        return None
    if any(type(length) is not int or length < 0 for length in shape.items):
        return None
    if size == OBJECTS:
        return OBJECTS, False
    padded = fields.get("numpy_array_alignment_bytes") is not None
    return math.prod(shape.items) * size, padded


def _itemsize(dtype: Node, depth: int = 0) -> int | None:
    """Return the bytes of one element, `OBJECTS`, or None for what NumPy does not write so."""
    if not isinstance(dtype, Call) or dtype.name != "numpy.dtype" or depth > 3:
        return None
    first = dtype.arguments[0] if dtype.arguments else None
    if isinstance(first, Global) and first.module == "ml_dtypes":
        return 2 if first.name == "bfloat16" else 1
    found = _KIND.match(as_string(first) or "")
    if found is None:
        return None
    letter, digits = found.groups()
    if letter == "O":
        return OBJECTS
    state = dtype.state.items if isinstance(dtype.state, TupleNode) else []
    if letter == "V" and any(_itemsize(part, depth + 1) == OBJECTS for part in _parts(state)):
        return OBJECTS
    if not digits:
        return None
    size = int(digits) * _UNIT_BYTES.get(letter, 1)
    # NumPy believes the state: `(version, order, base, names, fields, size, alignment, flags)`.
    told = state[5] if len(state) > 5 else -1
    flags = state[7] if len(state) > 7 else 0
    if told not in (-1, size) or type(flags) is not int or flags & _HAS_OBJECTS:
        return None
    return size


def _parts(state: list[Node]) -> list[Node]:
    """Return the dtypes that one with fields, or of small arrays, is made of."""
    parts = [state[2]] if len(state) > 2 else []
    if len(state) > 4 and isinstance(state[4], DictNode):
        parts += [field for _, field in state[4].pairs[:_MAX_FIELDS]]
    return [part.items[0] for part in parts if isinstance(part, TupleNode) and part.items]
