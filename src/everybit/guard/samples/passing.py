"""One pass over a loader: what it asked for, what it delivered, and where it began."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import xxhash

from everybit.detect.place_reached import Passed
from everybit.guard.samples.promise import generators_of, sampler_of
from everybit.probe.samples import stream_states

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.probe.samples import Packed, States

_MASK: Final = (1 << 64) - 1
_KEY_BITS: Final = (1 << 63) - 1

Keys = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A batch that was asked for.

    Attributes:
        keys: Keys of its samples.
        hashed: Hashes stand for them.
        expected: Keys that the sampler's own order, derived once more, had there; None where that
            is not known.
    """

    keys: Keys
    hashed: bool = False
    expected: Keys | None = None


@dataclass(slots=True)
class Beginning:
    """How everything that decides the order stood as a pass began.

    Attributes:
        streams: The global random streams.
        generators: Those of the loader and its sampler, by role.
        sampler: State of the sampler, where it has one.
        sampler_epoch: What `set_epoch` told it; None where it has no such number.
        base_seed: What workers are seeded with.
        kept: Workers and seed are those of an earlier pass.
        order: The global streams as the first index was asked for; others may have drawn since.
        order_generators: Those of the loader and its sampler at that moment.
    """

    streams: States
    generators: dict[str, Any]
    sampler: Any = None
    sampler_epoch: int | None = None
    base_seed: int | None = None
    kept: bool = False
    order: States | None = None
    order_generators: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, loader: Any, *, kept: bool = False) -> Beginning:
        """Take it as it is now; nothing is drawn."""
        sampler = sampler_of(loader)
        epoch = getattr(sampler, "epoch", None) if hasattr(sampler, "set_epoch") else None
        return cls(
            streams=stream_states({}),
            generators=_generator_states(loader),
            sampler=_state_of(sampler),
            sampler_epoch=epoch if isinstance(epoch, int) else None,
            kept=kept,
        )

    def order_begins(self, loader: Any) -> None:
        """Take how the streams stand as the first index is asked for; nothing is drawn."""
        self.order = stream_states({})
        self.order_generators = _generator_states(loader)


@dataclass(slots=True)
class Pass:
    """One pass.

    Attributes:
        number: Passes over this loader that were begun before.
        beginning: How it began.
        expected: The sampler's own order, derived once more; None where it is not known.
        delivered: Batches given to the loop, those before a saved position included.
        chain: A word of all keys (or digests) delivered so far, in order.
        samples: Keys delivered so far.
        sent: Keys of the batches that were asked for and not delivered yet, by worker.
        ended: It is over.
        whole: It is over, and the loader had no more.
        resumed_at: Batches that were passed over to get to a saved position.
        states: States of the workers' random streams as it began, where they are known.
        failed: Keys of batches that were not made: an error was raised in their place.
        passed: What is known of delivered samples that have no keys.
    """

    number: int
    beginning: Beginning
    expected: Iterator[int] | None = None
    delivered: int = 0
    chain: int = 0
    samples: int = 0
    sent: dict[int, deque[Asked | None]] = field(default_factory=dict)
    ended: bool = False
    whole: bool = False
    resumed_at: int = 0
    states: dict[int, States | Packed] = field(default_factory=dict)
    failed: Keys = ()
    passed: Passed = field(default_factory=Passed)

    def ask(self, worker: int, asked: Asked | None) -> None:
        """Take note of a batch that a worker was asked for."""
        self.sent.setdefault(worker, deque()).append(asked)

    def answer(self, worker: int) -> Asked | None:
        """Return the keys of the batch that a worker has delivered: the oldest it was asked for."""
        waiting = self.sent.get(worker)
        return waiting.popleft() if waiting else None

    def deliver(self, keys: Keys | None, words: Sequence[int]) -> None:
        """Count a delivered batch."""
        self.delivered += 1
        self.samples += len(words if keys is None else keys)
        self.chain = chained(self.chain, words if keys is None else keys)

    def outstanding(self) -> list[int]:
        """Return keys that were asked for and never delivered."""
        return [
            key for waiting in self.sent.values() for each in waiting if each for key in each.keys
        ]


def chained(chain: int, words: Sequence[int]) -> int:
    """Return a word of a sequence that is one batch longer. The same in every process."""
    return hash((chain, tuple(words))) & _MASK


def keys_of(index: Any) -> tuple[Keys, bool] | None:
    """Return the keys that an index of a batch names, and whether hashes stand for them.

    Args:
        index: What the sampler gave: a key, or a list of them.
    """
    if isinstance(index, int):
        return (int(index),), False
    if isinstance(index, (list, tuple)):
        if {int}.issuperset(map(type, index)):
            return tuple(index), False
        found = [_key_of(key) for key in index]
        return tuple(key for key, _ in found), any(hashed for _, hashed in found)
    if hasattr(index, "tolist"):
        return keys_of(index.tolist())
    if isinstance(index, slice):
        return keys_of(repr(index))
    key, hashed = _key_of(index)
    return (key,), hashed


def _key_of(key: Any) -> tuple[int, bool]:
    try:
        return key.__index__(), False  # NumPy's and torch's integers, too
    except (AttributeError, TypeError, RuntimeError):
        return xxhash.xxh3_64_intdigest(repr(key).encode("utf-8", "replace")) & _KEY_BITS, True


def _generator_states(loader: Any) -> dict[str, Any]:
    return {name: each.get_state() for name, each in generators_of(loader).items()}


def _state_of(sampler: Any) -> Any:
    if not (hasattr(sampler, "state_dict") and hasattr(sampler, "load_state_dict")):
        return None
    try:
        return sampler.state_dict()
    except Exception:
        return None
