"""Arrays that joblib writes raw into the stream, between the opcodes of its pickle.

Its unpickler, on BUILD of a `NumpyArrayWrapper`, reads the elements (or a pickle of them, where
they are objects) from the file itself and goes on with the opcodes behind them.
"""

from __future__ import annotations

import math
import re
from typing import Final

from everybit.files.pickles.constants import as_string
from everybit.files.pickles.machine import Machine
from everybit.files.pickles.nodes import Call, DictNode, Global, ListNode, Node, Pickle, TupleNode
from everybit.files.pickles.opcodes import MAX_STEPS, follow

_WRAPPER: Final = ".numpy_pickle.NumpyArrayWrapper"
_KIND: Final = re.compile(r"[<>|=]?([biufcSUVmMOT])(\d{0,9})\Z")
_UNIT_BYTES: Final = {"U": 4}
_MAX_FIELDS: Final = 1000

#: What an array of Python objects is told as.
OBJECTS: Final = -1


class ArrayMachine(Machine):
    """A machine that reads as joblib does; `inner` has the pickles of arrays of objects."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        super().__init__(data, start, forgiving=True)
        self.inner: list[Pickle] = []

    def build(self) -> None:
        """BUILD; behind that of a wrapper come the elements."""
        super().build()
        target, state = self.builds[-1]
        if not is_wrapper(target):
            return
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
    made_by = [target.function, *target.arguments[:1]]
    return any(names_wrapper(node) for node in made_by)


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
    padded = isinstance(fields.get("numpy_array_alignment_bytes"), int)
    return math.prod(shape.items) * size, padded


def _itemsize(dtype: Node, depth: int = 0) -> int | None:
    """Return the bytes of one element, `OBJECTS`, or None."""
    if not isinstance(dtype, Call) or not dtype.arguments or depth > 3:
        return None
    kind = as_string(dtype.arguments[0])
    found = _KIND.match(kind or "")
    if found is None:
        return None
    letter, digits = found.groups()
    if letter == "O":
        return OBJECTS
    state = dtype.state.items if isinstance(dtype.state, TupleNode) else []
    parts = state[4] if len(state) > 4 else None
    if isinstance(parts, DictNode) and letter == "V":
        for _, field in parts.pairs[:_MAX_FIELDS]:
            inner = field.items[0] if isinstance(field, TupleNode) and field.items else None
            if _itemsize(inner, depth + 1) == OBJECTS:
                return OBJECTS
    if not digits:
        return None
    return int(digits) * _UNIT_BYTES.get(letter, 1)
