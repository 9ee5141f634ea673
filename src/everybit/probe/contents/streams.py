"""Random streams of a fetching process: where each began, and whether it was drawn from."""

from __future__ import annotations

import ctypes
import random
import sys
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import xxhash

from everybit.core.contents import Moved, StreamFact
from everybit.probe.twister import NUM_WORDS, Followed, Twister, of_legacy, of_numpy, of_python

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Blocks of 624 numbers that a Mersenne Twister may have gone on between two looks.
MAX_BLOCKS: Final = 256
#: The streams of a process that everybody draws from.
GLOBAL: Final = ("python", "torch", "numpy")
_State = tuple[Any, ...]


class Streams:
    """The global streams of this process, and the generators that a dataset holds.

    The only one who reads them around a batch: a few microseconds a look, for the global ones.

    Args:
        own: Generators of the dataset, by name.
        quiet_between: Nobody draws between `left` and the next `begin`.
    """

    def __init__(self, own: Mapping[str, Any], *, quiet_between: bool = False) -> None:
        self._own = dict(own)
        self._quiet_between = quiet_between
        self._now: dict[str, _State] = {}
        self._starts: dict[str, _State] = {}
        self._before: dict[str, _State] = {}
        self._told: set[str] = set()
        self._words: dict[str, tuple[_State, int]] = {}
        self._python = Followed(random._inst)
        self._legacy: Followed | None = None
        self._last: _State | None = None
        self._worded: list[_State] = []
        self._last_word = 0

    def begin(self) -> None:
        """Look before samples are read."""
        self._before = self._now or self._states()
        self._now = {}
        if len(self._starts) < len(self._before):
            for name, state in self._before.items():
                self._starts.setdefault(name, state)

    def word(self) -> int:
        """Return one digest word of the global streams as they were at the last `begin`."""
        before = self._before
        if not before:
            return 0
        states = [before[name] for name in GLOBAL if name in before]
        if states != self._worded:
            words = [self._word_of(name, before[name]) for name in GLOBAL if name in before]
            self._worded, self._last_word = states, xxhash.xxh3_64_intdigest(array("Q", words))
        return self._last_word

    def end(self) -> tuple[bool, tuple[StreamFact, ...]]:
        """Look when samples were read.

        Returns:
            Whether any stream moved, and those that moved for the first time.
        """
        now = self._states()
        if now == self._before:  # As a rule they are the same objects.
            return False, ()
        moved = [name for name, state in now.items() if self._before.get(name, state) != state]
        facts = []
        for name in moved:
            if name not in self._told:
                self._told.add(name)
                how = how_moved(self._before[name], now[name])
                start = _word(self._starts[name])
                facts.append(StreamFact(name=name, start=start, moved=how))
        return bool(moved), tuple(facts)

    def left(self) -> bool:
        """Look when the batch was made; returns whether any stream moved since the last `begin`."""
        now = self._states()
        self._now = now if self._quiet_between else {}
        return now != self._before

    def _word_of(self, name: str, state: _State) -> int:
        known = self._words.get(name)
        if known is None or known[0] is not state:
            known = self._words[name] = (state, _word(state))
        return known[1]

    def _torch(self) -> _State:
        """Return the state of torch's generator, the same object while it has not moved."""
        state = torch.default_generator.get_state()
        held = _bytes(state.numel()).from_address(state.data_ptr()).raw
        if self._last is None or held != self._last[2]:
            self._last = ("torch", held[:8], held)
        return self._last

    def _states(self) -> dict[str, _State]:
        states: dict[str, _State] = {"torch": self._torch()}
        python = self._python.state()
        if python is not None:
            states["python"] = python
        if self._legacy is None:
            numpy_random: Any = sys.modules.get("numpy.random")
            if numpy_random is not None:
                self._legacy = Followed(numpy_random.mtrand._rand)
        if self._legacy is not None:
            legacy = self._legacy.state()
            states["numpy"] = state_of(np.random.mtrand._rand) if legacy is None else legacy
        for name, generator in self._own.items():
            state = state_of(generator)
            if state is not None:
                states[name] = state
        return states


def state_of(generator: Any) -> Any:
    """Return a generator's state as a value that compares; None where it has none to look at."""
    if isinstance(generator, random.Random):
        return of_python(generator)
    if isinstance(generator, torch.Generator):
        return _torch(generator) if generator.device.type == "cpu" else None
    if isinstance(generator, np.random.RandomState):
        twister = of_legacy(generator)
        if twister is None:  # Another kind was put in its place.
            return _numpy(generator.get_state(legacy=False))
        return twister
    if isinstance(generator, np.random.Generator):
        generator = generator.bit_generator
    if isinstance(generator, np.random.MT19937):
        return of_numpy(generator)
    return _numpy(generator.state) if isinstance(generator, np.random.BitGenerator) else None


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
    if isinstance(before, Twister) and isinstance(after, Twister):
        return Moved.DRAWN if _can_reach(before.key, after.key) else Moved.RESEEDED
    kind = before[0]
    if kind != after[0]:
        return Moved.RESEEDED
    if kind in ("PCG64", "PCG64DXSM", "Philox", "torch"):
        return Moved.DRAWN if before[1] == after[1] else Moved.RESEEDED
    return Moved.UNKNOWN


def _torch(generator: torch.Generator) -> _State:
    state = generator.get_state()
    held = _bytes(state.numel()).from_address(state.data_ptr()).raw
    return ("torch", held[:8], held)


@lru_cache(maxsize=16)
def _bytes(size: int) -> Any:
    return ctypes.c_char * size


def _numpy(state: Mapping[str, Any]) -> _State:
    kind, inner = state["bit_generator"], state["state"]
    rest = (state.get("has_uint32"), state.get("uinteger"), state.get("has_gauss"))
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
        digest.update(part if type(part) is bytes else repr(part).encode())
    return digest.intdigest()


def _can_reach(before: bytes, after: bytes) -> bool:
    """Whether a Mersenne Twister comes from one block of numbers to another by going on."""
    if before == after:
        return True
    wanted = np.frombuffer(after, np.uint32)
    twister: Any = np.random.MT19937()
    key = np.frombuffer(before, np.uint32).copy()
    held = {"bit_generator": "MT19937", "state": {"key": key, "pos": NUM_WORDS}}
    for _ in range(MAX_BLOCKS):
        twister.state = held
        twister.random_raw()
        held = twister.state
        if np.array_equal(held["state"]["key"], wanted):
            return True
        held["state"]["pos"] = NUM_WORDS
    return False
