"""States of Mersenne Twisters, of NumPy and of Python, read where they lie.

Asked for, they are copied number by number, which takes up to a hundred times as long. Where a
state lies is tried out once, on generators made for that; where it is not found, it is asked for.
"""

from __future__ import annotations

import _random
import ctypes
import random
import struct
import sys
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

NUM_WORDS: Final = 624
_KEY_BYTES: Final = 4 * NUM_WORDS
_BYTES: Final = _KEY_BYTES + 4
#: So many words are looked at; the first one is the same for every seed.
_MARK_BYTES: Final = 40
#: What a generator of normal numbers keeps: whether there is one, padding, and the number.
_HALF: Final = struct.Struct("<i4xd")


class Twister(NamedTuple):
    """The state of one.

    Attributes:
        key: Its 624 words of 32 bits, as they lie in memory.
        position: How many of them were used; 624: all.
        half: The second of a pair of normal numbers that it keeps; None with none.
    """

    key: bytes
    position: int
    half: float | None = None


def of_numpy(generator: Any) -> Twister:
    """Return the state of a `numpy.random.MT19937`; it keeps no normal number."""
    if _numpy_lies_as_known():
        return _split(ctypes.string_at(generator.ctypes.state_address, _BYTES))
    state = generator.state["state"]
    return Twister(state["key"].tobytes(), int(state["pos"]))


def of_legacy(generator: Any) -> Twister | None:
    """Return the state of a `numpy.random.RandomState`; None where it draws from no twister."""
    bits = generator._bit_generator
    if type(bits) is not np.random.MT19937:
        return None
    offset = _half_offset()
    if offset is None:
        state = generator.get_state(legacy=False)
        half = float(state["gauss"]) if state["has_gauss"] else None
        return Twister(state["state"]["key"].tobytes(), int(state["state"]["pos"]), half)
    has_half, half = _HALF.unpack(ctypes.string_at(id(generator) + offset, _HALF.size))
    key, position, _ = of_numpy(bits)
    return Twister(key, position, half if has_half else None)


def of_python(generator: random.Random) -> Twister:
    """Return the state of a `random.Random`."""
    if _python_lies_as_known() and type(generator).getstate is random.Random.getstate:
        held = ctypes.string_at(id(generator) + object.__basicsize__, _BYTES)
        position, key = int.from_bytes(held[:4], sys.byteorder), held[4:]
        half: float | None = vars(generator)["gauss_next"]
        return Twister(key, position, half)
    return _asked(generator)


class Followed:
    """The twister of one generator, read whole only where it has moved.

    Whether it has is told by its position, its kept normal number and its first words: to draw
    moves the position, and makes all words anew once they were used.

    Args:
        generator: A `random.Random` or a `numpy.random.RandomState`.
    """

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._mark: Any = None
        self._state: Twister | None = None
        self._is_python = isinstance(generator, random.Random)
        self._getstate = type(generator).getstate if self._is_python else None
        self._bits: Any = None
        self._views: tuple[Any, ...] = ()
        if self._getstate is random.Random.getstate and _python_lies_as_known():
            self._views = (_view(id(generator) + object.__basicsize__, _MARK_BYTES),)

    def state(self) -> Twister | None:
        """Return its state, the same object while it has not moved; None where it is no twister."""
        mark = self._look_at_python() if self._is_python else self._look_at_numpy()
        if mark is None or mark != self._mark:
            read = of_python if self._is_python else of_legacy
            self._state, self._mark = read(self._generator), mark
        return self._state

    def _look_at_python(self) -> Any:
        if not self._views or type(self._generator).getstate is not self._getstate:
            return None
        return self._views[0].raw, self._generator.__dict__["gauss_next"]

    def _look_at_numpy(self) -> Any:
        generator = self._generator
        bits = generator._bit_generator
        if bits is not self._bits:
            offset = _half_offset()
            if offset is None or type(bits) is not np.random.MT19937:
                return None
            self._bits, self._mark = bits, None
            address = bits.ctypes.state_address
            self._views = (
                _view(address, _MARK_BYTES),
                _view(address + _KEY_BYTES, 4),
                _view(id(generator) + offset, _HALF.size),
            )
        first, position, half = self._views
        return first.raw, position.raw, half.raw


def _view(address: int, size: int) -> Any:
    """Return what reads so many bytes as they are at the time; it keeps nothing alive."""
    return (ctypes.c_char * size).from_address(address)


def _asked(generator: random.Random) -> Twister:
    _, words, half = generator.getstate()
    return Twister(np.array(words[:NUM_WORDS], np.uint32).tobytes(), words[NUM_WORDS], half)


def _split(held: bytes) -> Twister:
    return Twister(held[:_KEY_BYTES], int.from_bytes(held[_KEY_BYTES:], sys.byteorder))


@cache
def _numpy_lies_as_known() -> bool:
    """Whether a twister lies in memory as NumPy's documentation of its state says."""
    one: Any = np.random.MT19937(7)
    one.random_raw(9)
    state = one.state["state"]
    held = _split(ctypes.string_at(one.ctypes.state_address, _BYTES))
    return held == (state["key"].tobytes(), state["pos"], None)


@cache
def _python_lies_as_known() -> bool:
    """Whether Python's twister lies behind the head of its object: position, then words."""
    size = getattr(_random.Random, "__basicsize__", 0)
    if sys.implementation.name != "cpython" or size < object.__basicsize__ + _BYTES:
        return False
    one = random.Random(7)
    for count in (0, 9, 700):
        for _ in range(count):
            one.random()
        held = ctypes.string_at(id(one) + object.__basicsize__, _BYTES)
        known = _asked(one)
        if (held[4:], int.from_bytes(held[:4], sys.byteorder)) != (known.key, known.position):
            return False
    return True


@cache
def _half_offset() -> int | None:
    """Where within a `RandomState` the kept normal number lies; None where it is not found."""
    kind = np.random.RandomState
    size = getattr(kind, "__basicsize__", 0)
    if sys.implementation.name != "cpython" or not size or not _numpy_lies_as_known():
        return None
    one, other = kind(7), kind(11)
    one.standard_normal()
    other.standard_normal(3)
    for offset in range(object.__basicsize__, size - _HALF.size + 1, 8):
        if all(_keeps(each, offset) for each in (one, other)):
            one.standard_normal()  # It keeps none now.
            return offset if _keeps(one, offset) else None
    return None


def _keeps(generator: Any, offset: int) -> bool:
    """Whether what lies there is what the generator says it keeps."""
    state = generator.get_state(legacy=False)
    has_half, half = _HALF.unpack(ctypes.string_at(id(generator) + offset, _HALF.size))
    if has_half != state["has_gauss"]:
        return False
    return not has_half or half == state["gauss"]
