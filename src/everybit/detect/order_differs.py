"""DAT404: the order is not the sampler's, or no other one than in the epoch before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.samples import Order

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.samples import Promise, SampleRecord

#: Keys at the beginning of an epoch that are compared with those of the one before.
COMPARED: Final = 64
#: Fewer could be in the same order by chance (12! is 479 million).
ENOUGH: Final = 12


@dataclass(slots=True)
class OrderJudge:
    """Judges the order of one loader's batches on one rank."""

    _epoch: int = -1
    _epoch_before: int = -1
    _first: list[int] = field(default_factory=list)
    _before: list[int] = field(default_factory=list)
    _epoch_set: int | None = None
    _epoch_set_before: int | None = None
    _told: bool = False
    _compared: bool = False
    _step: int = -1
    _whole: bool = False
    _passed: int = -1
    _last: tuple[SampleRecord, Promise] | None = None

    def judge(
        self,
        record: SampleRecord,
        promise: Promise,
        *,
        expected: tuple[int, ...] | None,
        epoch_set: int | None = None,
    ) -> Finding | None:
        """Return a finding where the batch is not what the order has next.

        Args:
            record: The batch.
            promise: What the sampler promises.
            expected: Keys that the sampler's own order has for it, derived once more from the
                state of its generator; None where that is not known exactly.
            epoch_set: What `set_epoch` told the sampler.
        """
        if record.indices is None:
            return None
        if expected is not None and expected != record.indices and promise.in_order:
            return self._other_order(record, promise, expected)
        if record.step < 0:  # For no update: it may go over the epoch that was trained on again.
            self._passed = record.epoch
            return None
        if record.epoch != self._epoch:
            self._begin(record, epoch_set)
        if not self._compared and len(self._first) < COMPARED:
            self._first += record.indices[: COMPARED - len(self._first)]
        self._last = record, promise
        return self._same_again(record, promise) if record.step > self._step else None

    def ended(self, epoch: int, *, whole: bool) -> Finding | None:
        """Take the end of a pass; return a finding where it had the order of the one before.

        Args:
            epoch: Number of the pass.
            whole: The loader had no more; else the loop broke it off.
        """
        if epoch != self._epoch or self._last is None:
            return None
        self._whole = whole
        (record, promise), self._last = self._last, None
        return self._same_again(record, promise) if whole else None

    def _begin(self, record: SampleRecord, epoch_set: int | None) -> None:
        """Take the beginning of a pass.

        One that was gone on with in its middle says nothing about how it began. One that was broken
        off before an update was only a look at the first batches: the epoch is still to come.
        """
        if record.epoch - 1 not in (self._epoch, self._passed):
            self._before = []
        elif self._whole or record.step > self._step:
            self._before, self._epoch_before = self._first, self._epoch
            self._epoch_set_before = self._epoch_set
        self._epoch, self._epoch_set = record.epoch, epoch_set
        self._first, self._compared = [], record.batch != 0
        self._step, self._whole = record.step, False

    def _same_again(self, record: SampleRecord, promise: Promise) -> Finding | None:
        size = len(self._before)
        if self._told or self._compared or size < ENOUGH or len(self._first) < size:
            return None
        self._compared = True
        shuffled = promise.shuffle and promise.order in (
            Order.RANDOM,
            Order.SUBSET,
            Order.DISTRIBUTED,
        )
        if not shuffled or self._first != self._before or len(set(self._first)) < ENOUGH:
            return None
        self._told = True
        unset = epoch_unset = False
        if promise.order is Order.DISTRIBUTED:
            unset = self._epoch_set == self._epoch_set_before
            epoch_unset = unset and self._epoch_set == 0
        why = (
            "`set_epoch` was never called"
            if epoch_unset
            else "`set_epoch` was given the same number"
            if unset
            else "its generator begins each epoch in the same state"
        )
        remedy = (
            "Call `loader.sampler.set_epoch(epoch)` as each epoch begins."
            if unset
            else "Seed the loader's generator once, before the first epoch."
        )
        return rule("DAT404").finding(
            f"{record.loader} is shuffled, and gives epoch {record.epoch} in the order of epoch "
            f"{self._epoch_before}: {why}",
            where=_place(record, None),
            evidence=_evidence(record, promise) | {"compared": size, "set_epoch": self._epoch_set},
            severity=Severity.WARNING,
            certainty=Certainty.STRONG,
            remedy=remedy,
        )

    def _other_order(
        self, record: SampleRecord, promise: Promise, expected: tuple[int, ...]
    ) -> Finding:
        assert record.indices is not None
        pairs = zip(record.indices, expected, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), len(expected))
        here = record.indices[at] if at < len(record.indices) else None
        wanted = expected[at] if at < len(expected) else None
        told = f"sample {wanted}" if wanted is not None else "nothing more"
        return rule("DAT404").finding(
            f"batch {record.batch} of epoch {record.epoch} of {record.loader} has sample {here} at "
            f"place {at}, where its sampler ({promise.sampler}) has {told}",
            where=_place(record, here),
            evidence=_evidence(record, promise) | {"place": at, "here": here, "expected": wanted},
        )


def _place(record: SampleRecord, sample: int | None) -> Location:
    return Location(
        link=Link.BATCH,
        step=record.step if record.step >= 0 else None,
        rank=record.rank,
        worker=record.worker if record.worker >= 0 else None,
        sample=sample,
    )


def _evidence(record: SampleRecord, promise: Promise) -> dict[str, Any]:
    return {
        "loader": record.loader,
        "epoch": record.epoch,
        "batch": record.batch,
        "sampler": promise.sampler,
    }
