"""The hooks on one iterator of a DataLoader: on the object, never on its class.

They see each index as it is asked for, each batch as it comes back, and the end. The order in which
anything is asked for, prefetched or delivered is that of torch's own methods, which they call. They
stay for as long as the iterator lives, so that envelopes are opened when no Guard is left to tell.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from everybit.guard.samples.passing import Asked, Beginning, Keys, Pass, keys_of
from everybit.guard.samples.promise import Known, expected_order, is_iterable
from everybit.probe.samples import Collating, Facts, begin_of, opened
from everybit.probe.samples.collating import Begin

if TYPE_CHECKING:
    from everybit.guard.samples.resume import AnyPlan
    from everybit.probe.samples import Packed, States

#: What an iterator must have to be followed; another version of torch may have renamed it.
_NEEDED: Final = ("_next_index", "_next_data", "_collate_fn", "_auto_collation", "_reset")
_HOOKS: Final = "_everybit_hooks"


@dataclass(slots=True, kw_only=True, eq=False)  # One a batch: frozen it costs four times as much.
class Arrived:
    """One batch as it has come back; nobody writes to it."""

    keys: Keys | None
    hashed: bool
    worker: int
    facts: Facts | None
    batch: Any
    number: int
    expected: Keys | None
    resumed: bool


class Going(Protocol):
    """A pass that is going on, as a sink sees it."""

    current: Pass

    @property
    def loader(self) -> Any: ...  # noqa: D102
    @property
    def is_alive(self) -> bool: ...  # noqa: D102
    @property
    def workers(self) -> list[Any]: ...  # noqa: D102
    def forget(self, sink: Any) -> None: ...  # noqa: D102
    def leave(self) -> None: ...  # noqa: D102


class Sink(Protocol):
    """Is told of passes."""

    def arrived(self, hooks: Going, batch: Arrived) -> None: ...  # noqa: D102
    def ended(self, hooks: Going, *, whole: bool) -> None: ...  # noqa: D102
    def begins(self, hooks: Going) -> int: ...  # noqa: D102
    def failed(self, hooks: Going, error: BaseException) -> None: ...  # noqa: D102


class Hooks:
    """Follows one iterator.

    Args:
        iterator: The iterator, its base class initialised.
        loader: Its loader.
        beginning: How everything stood before it was made.
        plan: Where it is to go on; None from the start.

    Attributes:
        current: The pass that is going on, or the last one.
        states: The last known states of the workers' random streams, by worker.
        has_keys: The data set has keys; an iterable one has none.
        quiet: Nobody is told yet.
        complete: Batches are made with our `collate_fn`: what is measured where they are made is
            known.
    """

    def __init__(
        self, iterator: Any, loader: Any, beginning: Beginning, plan: AnyPlan | None = None
    ) -> None:
        self._iterator = weakref.ref(iterator)
        self._loader = weakref.ref(loader)
        # `for batch in DataLoader(...)` lets go of it at once; one that keeps its iterator must not
        # be kept by it.
        keeps = loader.persistent_workers or hasattr(loader, "next_iter_state")
        self._kept = None if keeps else loader
        self._kind = type(iterator)
        self._sinks: list[Sink] = []
        self._asked: Asked | None = None
        self._worker = -1
        self._plan = plan
        self.has_keys = not is_iterable(loader)
        self._first = True
        self.complete = False
        self.quiet = False
        self.states: dict[int, States | Packed] = dict(plan.states) if plan is not None else {}
        self._processes: list[Any] = []
        beginning.base_seed = getattr(iterator, "_base_seed", None)
        self.current = Pass(number=0, beginning=beginning, states=dict(self.states))

    @property
    def loader(self) -> Any:
        """The loader; None where it is gone."""
        return self._loader()

    @property
    def is_alive(self) -> bool:
        """Whether the iterator is still there."""
        return self._iterator() is not None

    @property
    def in_loop(self) -> bool:
        """Whether somebody beside the loader, which may keep it, holds the iterator."""
        iterator = self._iterator()
        if iterator is None:
            return False
        kept = getattr(self._loader(), "_iterator", None) is iterator
        return sys.getrefcount(iterator) > 2 + kept

    @property
    def has_delivered_all(self) -> bool:
        """Whether the pass has given as many batches as the loader has; False where none says."""
        try:
            return self.has_keys and self.current.delivered >= len(self._loader())  # type: ignore[arg-type]
        except Exception:
            return False

    @property
    def workers(self) -> list[Any]:
        """The worker processes; those that the iterator had where it is gone."""
        iterator = self._iterator()
        return list(getattr(iterator, "_workers", ())) or self._processes

    def tell(self, sink: Sink) -> None:
        """Tell a sink of all that follows."""
        if sink not in self._sinks:
            self._sinks.append(sink)
            self.current.number = sink.begins(self)

    def forget(self, sink: Sink) -> None:
        """Tell a sink no more."""
        if sink in self._sinks:
            self._sinks.remove(sink)

    def install(self, *, early: bool) -> bool:
        """Hook the iterator; whether it could be.

        Args:
            early: No worker has been started yet: batches can be put into envelopes.
        """
        iterator = self._iterator()
        if iterator is None or not all(hasattr(iterator, name) for name in _NEEDED):
            return False
        if early and begin_of(iterator._auto_collation) is None:
            resume = {} if self._plan is None else self._plan.states
            begin = Begin(bool(iterator._auto_collation), iterator._dataset, resume)
            iterator._collate_fn = Collating(iterator._collate_fn, begin)
            iterator._auto_collation = begin
            self.complete = True
        for name in ("_next_index", "_next_data", "_reset", "_try_put_index", "_process_data"):
            if hasattr(self._kind, name):
                setattr(iterator, name, getattr(self, name))
        setattr(iterator, _HOOKS, self)
        return True

    def wake(self, delivered: int) -> None:
        """Begin to tell: a loader that knows its own position has come to it.

        Args:
            delivered: Batches of the pass that lie before it.
        """
        self.quiet = False
        self._first = False
        self.current.expected = None
        self.current.delivered = self.current.resumed_at = delivered
        if self._plan is not None:
            self.current.chain = self._plan.chain

    # What torch calls, by torch's names, in place of its own methods.

    def _next_index(self) -> Any:
        if self._first and not self.quiet:
            self._first = False
            self._begin_order()
        index = self._kind._next_index(self._iterator())
        self._asked = self._read(index) if self.has_keys else None
        return index

    def _try_put_index(self, *args: Any, **kwargs: Any) -> Any:
        iterator: Any = self._iterator()
        if self._plan is not None:
            self._plan.pass_over_indices(iterator, self)
        before = iterator._send_idx
        result = self._kind._try_put_index(iterator, *args, **kwargs)
        if iterator._send_idx > before:
            worker = iterator._task_info[before][0]
            self.current.ask(worker, self._asked)
        return result

    def _process_data(self, data: Any, worker: int, *args: Any, **kwargs: Any) -> Any:
        self._worker = worker
        return self._kind._process_data(self._iterator(), data, worker, *args, **kwargs)

    def _next_data(self) -> Any:
        if self.quiet:
            return self.take_raw()[-1]
        plan, self._plan = self._plan, None
        if plan is not None:
            plan.pass_over(self._iterator(), self)
            self.current.resumed_at = self.current.delivered
        return self._take(resumed=plan is not None and plan.live)

    def _reset(self, loader: Any, first_iter: bool = False, *args: Any, **kwargs: Any) -> Any:
        iterator = self._iterator()
        if not first_iter:
            self._end(whole=False)
            beginning = Beginning.of(loader, kept=True)
            beginning.base_seed = self.current.beginning.base_seed
            self.current = Pass(number=0, beginning=beginning, states=dict(self.states))
            self._first = True
            for sink in list(self._sinks):
                self.current.number = sink.begins(self)
        self._processes = self.workers
        return self._kind._reset(iterator, loader, first_iter, *args, **kwargs)

    def take_raw(self) -> tuple[Asked | None, Facts | None, Any]:
        """Let torch deliver its next batch, and return what was asked for, facts and batch.

        Tells nobody.
        """
        self._worker = -1
        try:
            data = self._kind._next_data(self._iterator())
        except StopIteration:
            raise
        except Exception:
            # What was raised while a batch was made: that batch is not coming any more.
            lost = self._asked if self._worker < 0 else self.current.answer(self._worker)
            if lost is not None:
                self.current.failed += lost.keys
            raise
        batch, facts = opened(data)
        if self._worker < 0:  # No workers: what was asked for is what came.
            asked = self._asked
        else:
            asked = self.current.answer(self._worker)
        if facts is not None and facts.states is not None:
            self.states[self._worker] = facts.states
        words = facts.samples or (facts.digest,) if facts is not None else ()
        self.current.deliver(None if asked is None else asked.keys, words)
        if not self.has_keys and facts is not None:
            seen = facts.contents
            samples = None if seen is None else seen.samples
            self.current.passed.take(samples, len(words), drew=seen is not None and seen.drew)
        return asked, facts, batch

    def pass_over_one(self) -> None:
        """Draw the next index and pass over it: nothing is loaded."""
        self._next_index()
        self.current.deliver(None if self._asked is None else self._asked.keys, ())

    def _read(self, index: Any) -> Asked | None:
        """Read an index that was drawn a moment ago.

        What the sampler's own order has there is derived now: an order that is read as it is gone
        through (`indices` of a subset) may be written before the batch is delivered.
        """
        found = keys_of(index)
        if found is None:
            return None
        keys, hashed = found
        try:
            expected = self._expect(len(keys))
        except Exception:  # A list of indices that was made shorter: no more is known.
            expected = self.current.expected = None
        return Asked(keys, hashed, None if hashed else expected)

    def _expect(self, count: int) -> Keys | None:
        """Return the next keys of the sampler's own order; None where it is not known."""
        order = self.current.expected
        if order is None or not getattr(self._iterator(), "_in_order", True):
            return None
        keys = tuple(islice(order, count))
        if len(keys) < count and isinstance(order, Known):
            self.current.expected = None  # It is known no further.
            return None
        return keys

    def _take(self, *, resumed: bool) -> Any:
        if self.current.ended:
            return opened(self._kind._next_data(self._iterator()))[0]
        number = self.current.delivered
        try:
            asked, facts, batch = self.take_raw()
        except StopIteration:
            self._end(whole=True)
            raise
        except Exception as error:
            for sink in list(self._sinks):
                sink.failed(self, error)
            raise
        arrived = Arrived(
            keys=None if asked is None else asked.keys,
            hashed=asked is not None and asked.hashed,
            worker=self._worker,
            facts=facts,
            batch=batch,
            number=number,
            expected=None if asked is None else asked.expected,
            resumed=resumed,
        )
        for sink in list(self._sinks):
            sink.arrived(self, arrived)
        return batch

    def _begin_order(self) -> None:
        try:
            loader = self._loader()
            if loader is not None:
                self.current.beginning.order_begins(loader)
            if self.has_keys and loader is not None:
                self.current.expected = expected_order(loader)
        except Exception:  # A sampler that cannot be copied: its order is not known.
            self.current.expected = None

    def _end(self, *, whole: bool) -> None:
        if not self.current.ended:
            self._kept = None
            self.current.ended, self.current.whole = True, whole
            for sink in list(self._sinks):
                sink.ended(self, whole=whole)

    def leave(self) -> None:
        """Take note that the pass was broken off: its iterator is gone, or nobody looks."""
        self._end(whole=False)
        self._processes = []  # Each holds an open file.


def hooks_of(iterator: Any) -> Hooks | None:
    """Return the hooks on an iterator; None where there are none."""
    found = getattr(iterator, "__dict__", {}).get(_HOOKS)
    return found if isinstance(found, Hooks) else None
