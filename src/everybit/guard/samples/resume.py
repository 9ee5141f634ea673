"""A saved position of a loader, and the plan that brings a new iterator back to it.

A position is how everything stood as the pass began, and how many batches were delivered since. To
go back to it, the pass is begun from there once more; of a data set with keys the sampler's indices
are drawn and passed over, and no sample is loaded; of an iterable one the batches are loaded and
passed over. A word of all keys (or samples) that were delivered shows whether that led to the same
place. Then the random streams are put to where they were when the position was saved.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from everybit.detect.place_reached import Passed, Place
from everybit.guard.samples.passing import Beginning
from everybit.guard.samples.promise import generators_of, sampler_of
from everybit.probe.samples import (
    Packed,
    dataset_generators,
    generator_states,
    restore_states,
    stream_states,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from everybit.core.samples import Promise
    from everybit.guard.samples.hooks import Hooks
    from everybit.probe.samples import States

#: What a loader must have in common with the saved one: nothing can be passed over otherwise.
_SAME = ("order", "sampler", "length", "num_samples", "batch_size", "drop_last", "num_replicas")


def position_of(hooks: Hooks, promise: Promise, *, live: bool) -> dict[str, Any]:
    """Return where an iterator has come to, as plain values and tensors.

    Args:
        hooks: The hooks on it.
        promise: What its sampler promises.
        live: The loop is within the pass; False where it is over.
    """
    current, loader = hooks.current, hooks.loader
    now = {} if loader is None else generators_of(loader)
    states = current.states if promise.order == "iterable" else hooks.states
    return {
        "promise": promise.to_json(),
        "epoch": current.number,
        "live": live,
        "delivered": current.delivered,
        "chain": current.chain,
        "passed": current.passed.to_state() if promise.order == "iterable" else None,
        "complete": hooks.complete,
        "beginning": asdict(current.beginning),
        "generators": {name: each.get_state() for name, each in now.items()},
        "dataset": generator_states(dataset_generators(getattr(loader, "dataset", None))),
        "own": own_state(loader) if live else None,
        "states": {
            int(worker): state.unpacked() if isinstance(state, Packed) else state
            for worker, state in states.items()
        },
    }


def own_state(loader: Any) -> Any:
    """Return the state of a loader that knows its own position; None of another one."""
    if loader is None or not hasattr(loader, "next_iter_state"):
        return None
    return loader.state_dict()


class AnyPlan(Protocol):
    """What brings an iterator to a saved position."""

    live: bool

    @property
    def states(self) -> dict[int, States]: ...  # noqa: D102
    @property
    def chain(self) -> int: ...  # noqa: D102
    def pass_over_indices(self, iterator: Any, hooks: Hooks) -> None: ...  # noqa: D102
    def pass_over(self, iterator: Any, hooks: Hooks) -> None: ...  # noqa: D102


class OwnPlan:
    """For a loader that goes to its position by itself: only the streams are put back.

    Args:
        position: As `position_of` returned it.
        restore: Puts the random streams of the process to where they were.
    """

    def __init__(self, position: dict[str, Any], restore: Callable[[], bool]) -> None:
        self.live = bool(position["live"])
        self.problems: list[str] = []
        self._position = position
        self._restore = restore

    @property
    def states(self) -> dict[int, States]:
        """States of the workers' streams: a worker that replays samples draws them anew."""
        replays = self._position["promise"]["order"] == "iterable"
        return {} if replays else dict(self._position["states"])

    @property
    def chain(self) -> int:
        """The word of all keys that were delivered before."""
        return int(self._position["chain"])

    def pass_over_indices(self, iterator: Any, hooks: Hooks) -> None:
        """Do nothing: the loader does it."""

    def pass_over(self, iterator: Any, hooks: Hooks) -> None:
        """Put the streams back."""
        if self.live:
            self._restore()


class Plan:
    """Brings one new iterator to a saved position.

    Args:
        position: As `position_of` returned it.
        restore: Puts the random streams of the process to where they were when it was saved; the
            second time it does nothing and returns False.

    Attributes:
        live: The position is within a pass.
        epoch: Number of that pass.
        problems: Why the position could not be reached exactly.
        unproven: Why it is not known whether it was; "" where it is.
    """

    def __init__(self, position: dict[str, Any], restore: Callable[[], bool]) -> None:
        self.live = bool(position["live"])
        self.epoch = int(position["epoch"])
        self.problems: list[str] = []
        self.unproven = ""
        self.delivered = int(position["delivered"])
        self._position = position
        self._beginning = Beginning(**position["beginning"])
        self._restore = restore
        self._inner: States = {}
        self._outer: States = {}
        self._done = False
        self._persistent = bool(position["promise"]["persistent"])

    @property
    def states(self) -> dict[int, States]:
        """States of the workers' streams to begin with."""
        if self.live or self._persistent:
            return dict(self._position["states"])
        return {}

    @property
    def chain(self) -> int:
        """The word of all keys that were delivered before."""
        return int(self._position["chain"])

    def fits(self, promise: Promise) -> str:
        """Say why a loader is not the one that was saved; "" where it is."""
        saved, here = self._position["promise"], promise.to_json()
        differ = [name for name in _SAME if saved.get(name) != here[name]]
        told = [f"{name} is {here[name]}, and was {saved.get(name)}" for name in differ]
        return "; ".join(told)

    def before(self, loader: Any, promise: Promise) -> None:
        """Put what decides the order to where it stood, before the iterator is made."""
        sampler = sampler_of(loader)
        if not self.live:
            _set_generators(loader, self._position["generators"])
            self._put_back_dataset(loader)
            return
        self._outer = stream_states({})
        self._look_for_problems(sampler, promise)
        restore_states(self._beginning.streams, {})
        _set_generators(loader, self._beginning.generators)
        if self._beginning.sampler is not None and hasattr(sampler, "load_state_dict"):
            sampler.load_state_dict(self._beginning.sampler)
        if self._beginning.sampler_epoch is not None and hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self._beginning.sampler_epoch)

    def after(self, iterator: Any, loader: Any) -> None:
        """Go on once it has been made: with the seed that its workers had."""
        if self.live or self._persistent:
            iterator._base_seed = self._beginning.base_seed
        if not self.live:
            return
        if self._beginning.kept:
            # The seed was drawn in an earlier pass; this one began without.
            restore_states(self._beginning.streams, {})
            _set_generators(loader, self._beginning.generators)
        # Between the making of an iterator and its first index others may draw: a second loader.
        self._inner = self._beginning.order or stream_states({})
        restore_states(self._outer, {})

    def pass_over_indices(self, iterator: Any, hooks: Hooks) -> None:
        """Pass over what was delivered before workers are asked for anything."""
        if self._done or not self.live or not hooks.has_keys:
            return
        self._done = True
        with self._within(hooks):
            self._draw(iterator, hooks)
        for _ in range(self.delivered % max(1, iterator._num_workers)):
            next(iterator._worker_queue_idx_cycle)

    def pass_over(self, iterator: Any, hooks: Hooks) -> None:
        """Pass over what is left to be, as the first batch is asked for; then go on."""
        if self.live and not self._done:
            self._done = True
            with self._within(hooks):
                if hooks.has_keys:
                    self._draw(iterator, hooks)
                else:
                    self._load(hooks)
        if self.live:
            iterator._num_yielded += self.delivered
            if hooks.current.chain != self.chain and not self.problems:
                self._look_for_place(hooks)
            self._put_back_dataset(hooks.loader)
            if not iterator._num_workers:  # Workers are asked ahead, and draw that again.
                _set_generators(hooks.loader, self._position["generators"])
            self._restore()

    def _look_for_place(self, hooks: Hooks) -> None:
        """Tell another place from the same one that was come to with other random numbers."""
        saved = self._position.get("passed")
        if hooks.has_keys or saved is None:
            place = Place.OTHER
        else:
            place = hooks.current.passed.against(Passed.from_state(saved))
        if place is Place.OTHER:
            self.problems.append(_why(hooks))
        elif place is Place.UNKNOWN:
            self.unproven = (
                "the samples that lead there were made with other random numbers than the first"
                " time, and no part of them is as it was: only their number is known to be right"
            )

    def _put_back_dataset(self, loader: Any) -> None:
        """Put generators that the data set keeps, in this process, to where they were."""
        restore_states(self._position["dataset"], dataset_generators(loader.dataset))

    def _draw(self, iterator: Any, hooks: Hooks) -> None:
        try:
            for _ in range(self.delivered):
                hooks.pass_over_one()
        except StopIteration:
            self.problems.append(f"the sampler has fewer than {self.delivered} batches now")

    def _load(self, hooks: Hooks) -> None:
        try:
            for _ in range(self.delivered):
                hooks.take_raw()
        except StopIteration:
            self.problems.append(f"the data set has fewer than {self.delivered} batches now")

    @contextmanager
    def _within(self, hooks: Hooks) -> Iterator[None]:
        outer = stream_states({})
        if self._beginning.order is not None:
            _set_generators(hooks.loader, self._beginning.order_generators)
        restore_states(self._inner, {})
        try:
            yield
        finally:
            self._inner = stream_states({})
            restore_states(outer, {})

    def _look_for_problems(self, sampler: Any, promise: Promise) -> None:
        saved = self._position["promise"]
        epoch = self._beginning.sampler_epoch
        now = getattr(sampler, "epoch", None)
        if epoch is not None and now not in (epoch, 0) and isinstance(now, int):
            self.problems.append(
                f"the loop has set the sampler's epoch to {now}, the position is in epoch {epoch}"
            )
        if promise.num_workers != saved["num_workers"] and self._position["states"]:
            self.problems.append(
                f"{saved['num_workers']} workers drew random numbers, and there are "
                f"{promise.num_workers} now: their streams cannot be gone on with"
            )
        if not promise.in_order and promise.num_workers:
            self.problems.append("batches are delivered in whatever order workers finish them")


def _set_generators(loader: Any, states: dict[str, Any]) -> None:
    for name, generator in generators_of(loader).items():
        if name in states:
            generator.set_state(states[name])


def _why(hooks: Hooks) -> str:
    if hooks.has_keys:
        return (
            "the sampler gives other indices than those that were delivered: it draws from a "
            "stream that the training draws from too, or keeps a state of its own"
        )
    return (
        "the data set gives other samples than those that were delivered: it draws from a stream "
        "that the training draws from too, or keeps a state of its own"
    )
