"""Random streams of a fetching process: where each began, and whether it was drawn from."""

from __future__ import annotations

import ctypes
import random
import sys
from array import array
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import xxhash

from everybit.core.contents import Moved, StreamFact

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Blocks of 624 numbers that a Mersenne Twister may have gone on between two looks.
MAX_BLOCKS: Final = 256
_TWISTER_BYTES: Final = 4 * 624 + 4
_State = tuple[Any, ...]


class Streams:
    """The global streams of this process, and the generators that a dataset holds.

    Args:
        own: Generators of the dataset, by name.
        quiet_between: Nobody draws between `end` and the next `begin`.
    """

    def __init__(self, own: Mapping[str, Any], *, quiet_between: bool = False) -> None:
        self._own = dict(own)
        self._quiet_between = quiet_between
        self._now: dict[str, _State] = {}
        self._starts: dict[str, _State] = {}
        self._before: dict[str, _State] = {}
        self._told: set[str] = set()
        self._pairs: dict[str, Any] = {}

    def begin(self) -> None:
        """Look before samples are read."""
        self._before = self._now or self._states()
        for name, state in self._before.items():
            self._starts.setdefault(name, state)
        self._pairs = self._halves()

    def words(self) -> dict[str, int]:
        """Return a digest word of each stream as it was at the last `begin`."""
        return {name: _word(state) for name, state in self._before.items()}

    def end(self) -> tuple[bool, tuple[StreamFact, ...]]:
        """Look when samples were read.

        Returns:
            Whether any stream moved, and those that moved for the first time.
        """
        now = self._states()
        self._now = now if self._quiet_between else {}
        moved = [name for name, state in now.items() if self._before.get(name, state) != state]
        if not moved and self._pairs != self._halves():
            moved = list(self._pairs)
        facts = []
        for name in moved:
            if name not in self._told:
                self._told.add(name)
                how = how_moved(self._before[name], now[name])
                start = _word(self._starts[name])
                facts.append(StreamFact(name=name, start=start, moved=how))
        return bool(moved), tuple(facts)

    def _halves(self) -> dict[str, Any]:
        """Return what legacy generators that were drawn from keep of a pair of normal numbers.

        The second number of a pair moves nothing else. Asking for it takes long.
        """
        numpy_random: Any = sys.modules.get("numpy.random")
        legacy = {n: g for n, g in self._own.items() if isinstance(g, np.random.RandomState)}
        if numpy_random is not None:
            legacy["numpy"] = numpy_random.mtrand._rand
        return {
            name: generator.get_state(legacy=False)["has_gauss"]
            for name, generator in legacy.items()
            if name in self._told
        }

    def _states(self) -> dict[str, _State]:
        states: dict[str, _State] = {
            "python": _python(random.getstate()),
            "torch": _torch(torch.default_generator),
        }
        numpy_random: Any = sys.modules.get("numpy.random")
        if numpy_random is not None:
            states["numpy"] = _legacy(numpy_random.mtrand._rand)
        for name, generator in self._own.items():
            state = state_of(generator)
            if state is not None:
                states[name] = state
        return states


def state_of(generator: Any) -> _State | None:
    """Return a generator's state as a value that compares; None where it has none to look at."""
    if isinstance(generator, random.Random):
        return _python(generator.getstate())
    if isinstance(generator, torch.Generator):
        return _torch(generator) if generator.device.type == "cpu" else None
    if isinstance(generator, np.random.RandomState):
        return _legacy(generator)
    if isinstance(generator, np.random.Generator):
        generator = generator.bit_generator
    if isinstance(generator, np.random.MT19937):
        held = twister_state(generator)
        return ("MT19937", held[:-4], held[-4:], None)
    return _numpy(generator.state) if isinstance(generator, np.random.BitGenerator) else None


def twister_state(generator: Any) -> bytes:
    """Return the 624 words and the position of a Mersenne Twister of NumPy's: 2,500 bytes.

    They are read where they lie: asked for as a dictionary they are copied word by word, which
    takes a hundred times as long.

    Args:
        generator: The bit generator.
    """
    return ctypes.string_at(generator.ctypes.state_address, _TWISTER_BYTES)


@cache
def _lies_as_known() -> bool:
    """Whether a twister lies in memory as this NumPy's documentation of its state says."""
    one: Any = np.random.MT19937(7)
    one.random_raw(9)
    state = one.state["state"]
    held: bytes = state["key"].tobytes()
    return twister_state(one) == held + np.int32(state["pos"]).tobytes()


def word_of(generator: Any) -> int:
    """Return a digest word of a generator's state; 0 where it has none to look at."""
    state = state_of(generator)
    return 0 if state is None else _word(state)


def how_moved(before: _State, after: _State) -> Moved:
    """Tell drawing from seeding again: a stream that was drawn from can be reached by drawing.

    A seed makes another constant of PCG64 and another key of Philox, which drawing leaves as they
    are; torch keeps the seed itself; a Mersenne Twister is turned on from `before` until it is at
    `after` (at most `MAX_BLOCKS` blocks of 624 numbers).
    """
    if before == after:
        return Moved.NO
    kind = before[0]
    if kind != after[0]:
        return Moved.RESEEDED
    if kind in ("PCG64", "PCG64DXSM", "Philox", "torch"):
        return Moved.DRAWN if before[1] == after[1] else Moved.RESEEDED
    if kind == "MT19937":
        return Moved.DRAWN if _can_reach(before[1], after[1]) else Moved.RESEEDED
    return Moved.UNKNOWN


def _python(state: tuple[Any, ...]) -> _State:
    return ("MT19937", state[1], None, state[2])  # The last of these words is the position.


def _torch(generator: torch.Generator) -> _State:
    held = generator.get_state().numpy().tobytes()
    return ("torch", held[:8], held)


def _legacy(generator: Any) -> _State:
    """Return the state of a `RandomState`, but for the second of a pair of normal numbers."""
    inner = generator._bit_generator
    if not isinstance(inner, np.random.MT19937) or not _lies_as_known():
        return _numpy(generator.get_state(legacy=False))
    held = twister_state(inner)
    return ("MT19937", held[:-4], held[-4:], None)


def _numpy(state: Mapping[str, Any]) -> _State:
    kind, inner = state["bit_generator"], state["state"]
    rest = (state.get("has_uint32"), state.get("uinteger"), state.get("has_gauss"))
    if kind == "MT19937":
        return (kind, inner["key"].tobytes(), inner["pos"], *rest)
    if kind in ("PCG64", "PCG64DXSM"):
        return (kind, inner["inc"], inner["state"], *rest)
    if kind == "Philox":
        return (
            kind,
            inner["key"].tobytes(),
            inner["counter"].tobytes(),
            *rest,
            state["buffer_pos"],
        )
    return (kind, repr(state))


def _word(state: _State) -> int:
    digest = xxhash.xxh3_64()
    for part in state:
        if isinstance(part, tuple):
            part = array("Q", part).tobytes()
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
    return digest.intdigest()


def _key(words: Any) -> np.ndarray[Any, np.dtype[np.uint32]]:
    if isinstance(words, bytes):
        return np.frombuffer(words, np.uint32).copy()
    return np.array(words[:624], np.uint32)


def _can_reach(before: Any, after: Any) -> bool:
    """Whether a Mersenne Twister comes from one block of numbers to another by going on."""
    wanted = _key(after)
    if np.array_equal(_key(before), wanted):
        return True
    twister: Any = np.random.MT19937()
    held = {"bit_generator": "MT19937", "state": {"key": _key(before), "pos": 624}}
    for _ in range(MAX_BLOCKS):
        twister.state = held
        twister.random_raw()
        held = twister.state
        if np.array_equal(held["state"]["key"], wanted):
            return True
        held["state"]["pos"] = 624
    return False
