"""The loaders that a Guard follows: found, named, told of, saved and gone on with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.data import DataLoader, dataloader

from everybit.core.after_import import AfterImport
from everybit.core.errors import UsageError
from everybit.core.samples import EpochEnd, Promise, SampleRecord
from everybit.guard.patches import Patches
from everybit.guard.samples.delivery import Delivery, EpochStart
from everybit.guard.samples.hooks import Hooks, hooks_of
from everybit.guard.samples.iterable import IterablePass, TrackedIterable
from everybit.guard.samples.names import Entries
from everybit.guard.samples.passing import Beginning
from everybit.guard.samples.positions import Positions
from everybit.guard.samples.promise import promise_of
from everybit.guard.samples.resume import Plan
from everybit.guard.worker_errors import is_cut_off, names_worker, wait_for_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.guard.course import Course
    from everybit.guard.fence import Fence
    from everybit.guard.samples.check import SampleCheck
    from everybit.guard.samples.hooks import Arrived, Going
    from everybit.guard.samples.names import Entry
    from everybit.guard.samples.resume import AnyPlan
    from everybit.guard.watch import Watch

#: How long a worker that has closed what it shares may take to be gone.
_DYING_S: Final = 1.0
_ITERATOR: Final = "_BaseDataLoaderIter"
_STATEFUL: Final = "torchdata.stateful_dataloader.stateful_dataloader"


class Data:
    """Follows every DataLoader of torch that is iterated while the Guard is active.

    Args:
        course: Gets what is delivered.
        watch: Knows the step, and whether a model is being trained.
        check: Judges what is delivered.
        fence: Calls a function with arguments; where that fails, the job does not.
        rank: Rank of this process.
        active: Follow loaders by themselves; where False nothing is done to them.
    """

    def __init__(
        self,
        course: Course,
        watch: Watch,
        check: SampleCheck,
        fence: Fence,
        *,
        rank: int,
        active: bool,
    ) -> None:
        self._course = course
        self._watch = watch
        self._check = check
        self._fence = fence
        self._rank = rank
        self._active = active
        self._entries = Entries()
        self._positions = Positions(self._entries, check)
        self._patches = Patches()
        self._import = AfterImport(_STATEFUL, self._watch_stateful)
        self._going: dict[Going, Entry] = {}

    def install(self) -> None:
        """Begin to follow loaders."""
        if self._active and hasattr(dataloader, _ITERATOR):
            self._patches.wrap(getattr(dataloader, _ITERATOR), "__init__", self._made)
            self._patches.wrap(DataLoader, "__iter__", self._iterated)
            self._import.install()

    def remove(self) -> None:
        """Leave everything as it was; iterators that are still used pass their batches on."""
        self._import.remove()
        self._patches.undo()
        for hooks in list(self._going):
            hooks.forget(self)

    def track(self, loader: Any, name: str = "") -> Any:
        """Follow a loader under a name; returns what to iterate: the loader itself, if it is one.

        Raises:
            UsageError: It cannot be iterated.
        """
        if isinstance(loader, DataLoader):
            self._entries.of(loader, name)
            return loader
        if not hasattr(loader, "__iter__"):
            raise UsageError(
                f"a {type(loader).__name__} cannot be iterated",
                where="track",
                todo="give it a DataLoader, or anything that a for loop takes",
            )
        tracked = TrackedIterable(loader, self._begin_iterable)
        self._entries.of(tracked, name or type(loader).__name__)
        return tracked

    def state_dict(self) -> dict[str, Any]:
        """Return random streams and positions, as plain values and tensors."""
        self._sweep()
        return self._positions.save(int(self._watch.boundaries.step))

    def load_state_dict(self, state: Any) -> None:
        """Put the streams back; a loader goes on from its position when it is iterated next.

        Raises:
            UsageError: It is no such state.
        """
        self._positions.load(state)

    def close(self, error: BaseException | None = None) -> None:
        """Tell of passes that are still going on, and of positions that nobody took up.

        Args:
            error: What ends the run. Where a worker died while the loop was elsewhere, torch raises
                there, and no batch is missed.
        """
        for hooks in list(self._going):
            if error is not None and (
                names_worker(error, hooks.workers) or (hooks.is_alive and is_cut_off(error))
            ):
                self._look_at_workers(hooks, error)
        self._sweep(everything=True)
        self._positions.close()

    # What the hooks call.

    def begins(self, hooks: Going) -> int:
        """Take note of a pass; returns its number."""
        self._sweep()
        entry = self._going[hooks]
        if hasattr(hooks.loader, "dataset"):
            # Where workers are kept it is not read anew otherwise, and may have changed since.
            self._fence(self._announce, entry, hooks.loader)
        return entry.begins()

    def arrived(self, hooks: Going, batch: Arrived) -> None:
        """Put a batch on record and have it judged, before the loop gets it."""
        wanted = torch.is_grad_enabled()
        with self._watch.boundaries.lock:
            found = self._fence(self._look, hooks, batch, wanted)
        if found:
            self._course.act(found)

    def ended(self, hooks: Going, *, whole: bool) -> None:
        """Have a pass judged that is over."""
        self._going[hooks].ended(hooks, whole=whole)
        with self._watch.boundaries.lock:
            found = self._fence(self._look_back, hooks, whole)
        if found:
            self._course.act(found)

    def failed(self, hooks: Going, error: BaseException) -> None:
        """Tell of a worker that died, where that is why a batch is not coming."""
        found = self._fence(self._look_at_workers, hooks, error)
        if found:
            self._course.act(found)

    def _made(self, original: Any, iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        plan: AnyPlan | None = None
        beginning = None
        if self._fence.is_ours:
            plan, beginning = self._fence(self._before, loader) or (None, None)
        original(iterator, loader, *args, **kwargs)
        if beginning is not None:
            self._fence(self._after, iterator, loader, beginning, plan)

    def _watch_stateful(self) -> None:
        kind = sys.modules[_STATEFUL].StatefulDataLoader
        self._patches.wrap(kind, "__iter__", self._iterated)

    def _iterated(self, original: Any, loader: Any) -> Any:
        """Follow an iterator that was made before this Guard, or that goes on by itself."""
        if self._fence.is_ours and hasattr(loader, "next_iter_state"):
            self._fence(self._hand_over, loader)
        iterator = original(loader)
        if self._fence.is_ours and isinstance(iterator, getattr(dataloader, _ITERATOR)):
            self._fence(self._meet, iterator, loader)
        return iterator

    def _hand_over(self, loader: Any) -> None:
        """Give a loader that knows its own position the saved one."""
        state = self._positions.own_state(self._entries.of(loader))
        if state is not None:
            loader.load_state_dict(state)

    def _before(self, loader: Any) -> tuple[AnyPlan | None, Beginning]:
        self._sweep()
        entry = self._entries.of(loader)
        self._announce(entry, loader)
        stateful = getattr(loader, "next_iter_state", None) is not None
        find = self._positions.own_plan if stateful else self._positions.plan_for
        name, plan = entry.name, find(entry)
        if entry.name != name:  # It turned out to be another of the saved ones.
            entry.promise = Promise()
            self._announce(entry, loader)
        self._start(entry, loader)
        beginning = Beginning.of(loader)
        if isinstance(plan, Plan):
            plan.before(loader, entry.promise)
            beginning = Beginning.of(loader) if plan.live else beginning
        return plan, beginning

    def _after(
        self, iterator: Any, loader: Any, beginning: Beginning, plan: AnyPlan | None
    ) -> None:
        if isinstance(plan, Plan):
            plan.after(iterator, loader)
        hooks = hooks_of(iterator)
        if hooks is None:
            hooks = Hooks(iterator, loader, beginning, plan)
            if not hooks.install(early=True):
                self._check.cannot_follow(
                    self._entries.of(loader).name, "this version of torch iterates in another way"
                )
                return
        if getattr(loader, "next_iter_state", None) is not None:
            hooks.quiet = True  # It gets to its position by itself, on the way out of `__init__`.
        else:
            self._attach(hooks, loader)

    def _meet(self, iterator: Any, loader: Any) -> None:
        known = hooks_of(iterator)
        if known is not None:
            if known.quiet:
                known.wake(iterator._num_yielded)
                self._attach(known, loader)
            return
        hooks = Hooks(iterator, loader, Beginning.of(loader, kept=True))
        if hooks.install(early=False):
            self._attach(hooks, loader)
            why = "its workers were started before the Guard: what they measure is not known"
            self._check.cannot_follow(self._entries.of(loader).name, why)

    def _attach(self, hooks: Hooks, loader: Any) -> None:
        entry = self._entries.of(loader)
        self._announce(entry, loader)
        self._going[hooks] = entry
        hooks.tell(self)
        entry.hooks = hooks

    def _start(self, entry: Entry, loader: Any) -> None:
        start = EpochStart(
            loader=entry.name,
            epoch=entry.passes,
            source=loader,
            dataset=getattr(loader, "dataset", None),
            promise=entry.promise,
            step=int(self._watch.boundaries.step),
        )
        self._course.start_epoch(start)

    def _announce(self, entry: Entry, loader: Any) -> None:
        promise = promise_of(loader)
        if promise != entry.promise:
            entry.promise = promise
            self._course.record.observe(
                "loader",
                int(self._watch.boundaries.step),
                loader=entry.name,
                dataset=type(loader.dataset).__name__,
                **promise.to_json(),
            )

    def _look(self, hooks: Going, batch: Arrived, wanted: bool) -> Sequence[Finding]:
        entry, loader = self._going[hooks], hooks.loader
        facts = batch.facts
        step, training = self._watch.position(wanted)
        entry.delivered(step, first=batch.number == 0 or batch.resumed, for_update=training)
        record = SampleRecord(
            loader=entry.name,
            epoch=hooks.current.number,
            batch=batch.number,
            step=step if training or not self._watch.trains() else -1,
            worker=batch.worker,
            rank=self._rank,
            indices=batch.keys,
            hashed=batch.hashed,
            sample_digests=facts.samples if facts is not None else (),
            batch_digest=facts.digest if facts is not None else 0,
            worker_rng=facts.stream_word if facts is not None else 0,
        )
        delivery = Delivery(
            record=record,
            promise=entry.promise,
            facts=facts,
            batch=batch.batch,
            dataset=getattr(loader, "dataset", None),
            loader=loader,
            step=step,
            training=training,
            expected=batch.expected,
            resumed=batch.resumed,
            epoch_set=hooks.current.beginning.sampler_epoch,
        )
        return self._course.deliver(delivery)

    def _look_back(self, hooks: Going, whole: bool) -> Sequence[Finding]:
        entry = self._going[hooks]
        end = EpochEnd(
            loader=entry.name,
            epoch=hooks.current.number,
            num_batches=hooks.current.delivered,
            whole=whole,
            promise=entry.promise,
            step=int(self._watch.boundaries.step),
        )
        lost = hooks.current.outstanding() if whole else []
        self._check.lost(lost, hooks.current)
        return self._course.end_epoch(end)

    def _look_at_workers(self, hooks: Going, error: BaseException) -> Sequence[Finding]:
        entry = self._going[hooks]
        if is_cut_off(error):
            wait_for_one(hooks.workers, _DYING_S)
        found = self._check.workers(
            hooks.workers,
            hooks.current,
            loader=entry.name,
            step=int(self._watch.boundaries.step),
            error=error,
        )
        return self._course.tell(found, int(self._watch.boundaries.step))

    def _sweep(self, *, everything: bool = False) -> None:
        """Tell of passes whose iterators are gone, or of all; the former are forgotten."""
        for hooks in list(self._going):
            if not hooks.is_alive:
                hooks.leave()
                del self._going[hooks]
            elif everything and not hooks.current.ended:
                self.ended(hooks, whole=False)  # For this Guard; another one may go on with it.

    def _begin_iterable(self, tracked: TrackedIterable) -> IterablePass | None:
        if not self._active or not self._fence.is_ours or not self._course.is_open:
            return None
        going = IterablePass(tracked, self)
        self._going[going] = self._entries.of(tracked)
        going.current.number = self.begins(going)
        return going
