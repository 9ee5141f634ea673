"""DAT401: a sample reached the model twice in an epoch."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.samples import Order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.core.finding import Finding
    from everybit.core.samples import Promise, SampleRecord

#: Keys of one epoch that are remembered; beyond that repeats are not looked for.
MAX_KEYS: Final = 50_000_000
_MAX_TOLD: Final = 16
#: Samples of each worker that are compared with those of the others.
_COMPARED: Final = 32
_ENOUGH: Final = 8
_WRITTEN: Final = "its list of indices was written while it was gone through"


@dataclass(slots=True)
class RepeatJudge:
    """Judges the batches of one loader on one rank, in the order of their delivery.

    Attributes:
        seen: Keys of the epoch that is going on.
        unknown: Why repeats cannot be looked for, "" where they can.
    """

    seen: set[int] = field(default_factory=set)
    unknown: str = ""
    _epoch: int = -1
    _from_start: bool = False
    _by_worker: dict[int, deque[int]] = field(default_factory=dict)
    _workers_told: bool = False

    def judge(
        self,
        record: SampleRecord,
        promise: Promise,
        *,
        expected: tuple[int, ...] | None = None,
    ) -> Finding | None:
        """Return a finding where the batch holds what the epoch has had already.

        Args:
            record: The batch.
            promise: What the sampler promises.
            expected: Keys that the sampler's own order has for it; None where that is not known. A
                list of indices that holds a sample twice by now was written by the program.
        """
        if record.epoch != self._epoch:
            self._epoch = record.epoch
            self._from_start = record.batch == 0
            self.seen = set()
            self._by_worker = {}
        if promise.order is Order.ITERABLE:
            return self._judge_workers(record, promise)
        if record.indices is None:
            self.unknown = "its samples have no keys"
            return None
        if not promise.once:
            self.unknown = _why_unknown(promise)
            return None
        if len(self.seen) + len(record.indices) > MAX_KEYS:
            self.unknown = f"more than {MAX_KEYS} samples in an epoch"
            self._from_start = False
            return None
        before = len(self.seen)
        new = set(record.indices)
        repeated: list[int] = []
        if len(new) < len(record.indices) or not new.isdisjoint(self.seen):
            repeated = _repeated(record.indices, self.seen)
        self.seen |= new
        if repeated and promise.order is Order.SUBSET and expected == record.indices:
            self.unknown = _WRITTEN
            self._from_start = False
            return None
        return _finding(record, promise, repeated, before) if repeated else None

    def is_whole(self, epoch: int) -> bool:
        """Whether all keys of the epoch are known, from its first batch on."""
        known = self.unknown in ("", _WRITTEN)  # Written in another epoch.
        return epoch == self._epoch and self._from_start and known

    def ended(self, epoch: int) -> None:
        """Let go of the keys of an epoch that is over."""
        if epoch == self._epoch:
            self.seen = set()
            self._from_start = False

    def _judge_workers(self, record: SampleRecord, promise: Promise) -> Finding | None:
        if not record.sample_digests or record.worker < 0:
            self.unknown = "an iterable data set has no keys"
            return None
        self.unknown = "an iterable data set has no keys: workers are compared with each other"
        words = self._by_worker.setdefault(record.worker, deque())
        room = _COMPARED - len(words)
        words.extend(record.sample_digests[:room] if room > 0 else ())
        if self._workers_told or room <= 0:
            return None
        for other, theirs in self._by_worker.items():
            if other != record.worker and _same_stream(words, theirs):
                self._workers_told = True
                return _workers_finding(record, promise, other, min(len(words), len(theirs)))
        return None


def judge_ranks(
    streams: Sequence[Iterable[SampleRecord]], promises: Sequence[Promise]
) -> list[Finding]:
    """Say where several ranks gave the model the same samples of one epoch.

    Args:
        streams: Delivered batches of each rank, of one loader.
        promises: What its sampler promises on each rank.

    Returns:
        A finding a pass that is shared by all ranks though no sampler shards the data set; none
        where shards are padded, or keys or digests are not known; and none of loaders that do not
        shuffle, or deliver for no update: each rank may evaluate on everything.
    """
    if len(streams) < 2 or any(p.num_replicas > 1 or not p.once or not p.shuffle for p in promises):
        return []
    by_rank = [_first_epoch(stream) for stream in streams]
    first = by_rank[0]
    if len(first) < _ENOUGH or any(each != first for each in by_rank[1:]):
        return []
    loader = next(iter(first.values()))[0]
    return [
        rule("DAT401").finding(
            f"all {len(streams)} ranks read the same {len(first)} samples of {loader}: nothing "
            "shards the data set",
            where=Location(link=Link.BATCH, rank=0, sample=next(iter(first))),
            evidence={"loader": loader, "ranks": len(streams), "samples": len(first)},
            severity=Severity.WARNING,
            certainty=Certainty.STRONG,
            remedy="Give the loader a DistributedSampler, or each rank its own part of the data.",
        )
    ]


def _first_epoch(stream: Iterable[SampleRecord]) -> dict[int, tuple[str, int]]:
    """Return loader and digest by key of the first epoch on record; without digests, nothing."""
    found: dict[int, tuple[str, int]] = {}
    epoch = None
    for record in stream:
        epoch = record.epoch if epoch is None else epoch
        if record.epoch != epoch:
            break
        if record.step < 0:
            return {}
        if record.indices is None or len(record.sample_digests) != len(record.indices):
            return {}
        for key, word in zip(record.indices, record.sample_digests, strict=True):
            found[key] = (record.loader, word)
    return found


def _same_stream(mine: deque[int], theirs: deque[int]) -> bool:
    size = min(len(mine), len(theirs))
    if size < _ENOUGH:
        return False
    first, second = list(mine)[:size], list(theirs)[:size]
    return first == second and 0 not in first and len(set(first)) >= _ENOUGH


def _repeated(indices: Sequence[int], seen: set[int]) -> list[int]:
    found, here = [], set()
    for key in indices:
        if key in seen or key in here:
            found.append(key)
        here.add(key)
    return found


def _why_unknown(promise: Promise) -> str:
    if promise.order in (Order.CUSTOM, Order.UNKNOWN):
        return (
            f"its sampler ({promise.sampler}) is the program's own: what it promises is not known"
        )
    return f"its sampler ({promise.sampler}) draws samples several times on purpose"


def _finding(record: SampleRecord, promise: Promise, repeated: list[int], before: int) -> Finding:
    what = (
        f"sample {repeated[0]}"
        if len(repeated) == 1
        else f"{len(repeated)} samples ({repeated[0]} ...)"
    )
    return rule("DAT401").finding(
        f"{what} of {record.loader} came a second time in epoch {record.epoch}, in batch "
        f"{record.batch}; its sampler ({promise.sampler}) draws each once",
        where=Location(
            link=Link.BATCH,
            step=record.step if record.step >= 0 else None,
            rank=record.rank,
            worker=record.worker if record.worker >= 0 else None,
            sample=repeated[0],
        ),
        evidence={
            "loader": record.loader,
            "epoch": record.epoch,
            "batch": record.batch,
            "samples": repeated[:_MAX_TOLD],
            "num_repeated": len(repeated),
            "samples_before": before,
            "sampler": promise.sampler,
        },
    )


def _workers_finding(record: SampleRecord, promise: Promise, other: int, compared: int) -> Finding:
    return rule("DAT401").finding(
        f"workers {other} and {record.worker} of {record.loader} read the same samples: the "
        f"first {compared} of each are equal, so every sample comes {promise.num_workers} times",
        where=Location(
            link=Link.BATCH,
            step=record.step if record.step >= 0 else None,
            rank=record.rank,
            worker=record.worker,
        ),
        evidence={
            "loader": record.loader,
            "epoch": record.epoch,
            "batch": record.batch,
            "workers": [other, record.worker],
            "compared": compared,
            "num_workers": promise.num_workers,
        },
        remedy="Have the data set give each worker its own part: see torch's "
        "`get_worker_info()`, in `__iter__`.",
    )
