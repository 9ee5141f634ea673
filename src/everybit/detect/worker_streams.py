"""DAT403: two processes that fetch batches drew the same random stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.contents import Moved
from everybit.core.finding import Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.batch_place import facts_of_batch, place_of_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.contents import BatchFacts
    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord


class WorkerStreams:
    """Where each worker's streams began, an epoch of a loader.

    Streams that were not drawn from, or that were seeded again before they were, are compared with
    nothing.

    Attributes:
        num_compared: Streams that were.
        num_unknown: Streams of which it cannot be told whether they were drawn from.
    """

    def __init__(self) -> None:
        self.num_compared = 0
        self.num_unknown = 0
        self._starts: dict[tuple[str, str], tuple[int, dict[int, int]]] = {}
        self._before: dict[tuple[str, str, int], int] = {}
        self._told: set[tuple[str, str]] = set()

    def judge(
        self, record: SampleRecord, facts: BatchFacts, *, reshuffles: bool = True
    ) -> list[Finding]:
        """Return what is wrong with the streams that were drawn from first in this batch.

        Args:
            record: The batch.
            facts: What was seen while it was fetched.
            reshuffles: Another order is wanted each epoch: so are other draws.
        """
        found = []
        for stream in facts.streams:
            if stream.moved is Moved.UNKNOWN:
                self.num_unknown += 1
            if stream.moved is not Moved.DRAWN:
                continue
            self.num_compared += 1
            key = (record.loader, stream.name)
            epoch, starts = self._starts.get(key, (-1, {}))
            if epoch != record.epoch:
                starts = {}
                self._starts[key] = (record.epoch, starts)
            other = starts.setdefault(stream.start, record.worker)
            before = self._before.get((*key, record.worker))
            self._before[*key, record.worker] = stream.start
            if key in self._told:
                continue
            if other != record.worker:
                found.append(_shared(record, stream.name, stream.start, other))
            elif before == stream.start and reshuffles:
                found.append(_restarted(record, stream.name, stream.start))
            else:
                continue
            self._told.add(key)
        return found


def judge_ranks(
    loader: str, epoch: int, starts: Mapping[int, Mapping[str, int]], *, step: int
) -> list[Finding]:
    """Return a finding where ranks drew the same streams while they fetched.

    Args:
        loader: Name of the loader.
        epoch: Which pass over it.
        starts: By rank where the drawn streams began: `{"<worker> <stream>": word}`.
        step: Updates finished.
    """
    by_word: dict[tuple[str, int], list[int]] = {}
    for rank, streams in starts.items():
        for name, word in streams.items():
            by_word.setdefault((name.partition(" ")[2], word), []).append(rank)
    same = {key: sorted(set(ranks)) for key, ranks in by_word.items() if len(set(ranks)) > 1}
    if not same:
        return []
    names = sorted({name for name, _ in same})
    ranks = sorted({rank for held in same.values() for rank in held})
    return [
        rule("DAT403").finding(
            f"ranks {', '.join(map(str, ranks))} augment alike in {loader}: they drew the same"
            f" random stream ({', '.join(names)}) in epoch {epoch}",
            where=Location(step=step, rank=ranks[-1], link=Link.RNG),
            evidence={
                "kind": "ranks",
                "loader": loader,
                "epoch": epoch,
                "streams": names,
                "ranks": ranks,
            },
            remedy="Seed each rank differently where samples are read: seed + rank (the sampler"
            " keeps the seed that all ranks share).",
            severity=Severity.WARNING,
        )
    ]


def _shared(record: SampleRecord, stream: str, start: int, other: int) -> Finding:
    first, second = sorted((other, record.worker))
    return rule("DAT403").finding(
        f"workers {first} and {second} of {record.loader} drew the same random stream ({stream})"
        f" in epoch {record.epoch}",
        where=place_of_batch(record, link=Link.RNG),
        evidence={
            "kind": "workers",
            **facts_of_batch(record),
            "stream": stream,
            "workers": [first, second],
            "start": f"{start:016x}",
        },
    )


def _restarted(record: SampleRecord, stream: str, start: int) -> Finding:
    who = f"worker {record.worker} of {record.loader}" if record.worker >= 0 else record.loader
    return rule("DAT403").finding(
        f"{who} drew the same random stream ({stream}) in epoch {record.epoch} as in the epoch"
        " before: it began again",
        where=place_of_batch(record, link=Link.RNG),
        evidence={
            "kind": "restarted",
            **facts_of_batch(record),
            "stream": stream,
            "start": f"{start:016x}",
        },
        severity=Severity.WARNING,
    )
