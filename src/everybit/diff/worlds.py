"""Two runs on other numbers of ranks: what is comparable is what all ranks together do in a step.

A rank of two sees half of the batch, so its inputs, its outputs and its loss have no counterpart in
one that sees all of it. The samples of all ranks together have, and so have the gradients after
their reduction, and the weights.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.core.observation import TensorTable
from everybit.core.verdict import Skipped
from everybit.diff.environment import Difference
from everybit.diff.trace_names import is_traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.observation import StepRecord
    from everybit.core.samples import SampleRecord
    from everybit.diff.side import RankSide, RunSide

#: Links whose values are the same on every rank.
_SHARED: Final = frozenset({Link.GRAD, Link.REDUCE, Link.UPDATE})
_NAMES: Final = ("samples",)


def differ(a: RunSide, b: RunSide) -> bool:
    """Whether two runs are known to have run on other numbers of ranks, all of them on record."""
    sizes = a.world_size, b.world_size
    return (
        all(sizes)
        and sizes[0] != sizes[1]
        and all(len(run.ranks) == run.world_size for run in (a, b))
    )


def joined(run: RunSide) -> RankSide:
    """Return all ranks of a run as one: samples together, and what every rank holds alike."""
    lowest = run.ranks[min(run.ranks)]
    words = _words(run)
    return replace(
        lowest,
        steps=(_shared(record, words.get(record.step)) for record in lowest.steps),
        reread=None,
        sealed=None,
        layout=None,
        samples=lambda: _samples(run),
    )


def difference(a: RunSide, b: RunSide) -> Difference:
    """Return the difference of ranks, which changes the order of every sum over a batch."""
    return Difference(entry="ranks", before=a.world_size, after=b.world_size, kind="environment")


def told(a: RunSide, b: RunSide) -> Skipped:
    """Return what is not compared, and what is."""
    why = (
        f"A ran on {a.world_size} and B on {b.world_size}: compared are the samples of a step over "
        "all ranks, the gradients after their reduction, and the weights"
    )
    return Skipped(what="inputs, outputs and losses of each rank", why=why, promised=False)


def _shared(record: StepRecord, word: int | None) -> StepRecord:
    tables = [
        table for table in record.tables if table.link in _SHARED and not is_traced(table.names)
    ]
    if word is not None:
        tables.insert(0, TensorTable(link=Link.BATCH, names=_NAMES, digests=(word,)))
    return replace(record, tables=tuple(tables), losses=())


def _words(run: RunSide) -> dict[int, int]:
    """Return one word for the samples of each step, whatever their order and their rank."""
    sums: dict[int, int] = {}
    unknown: set[int] = set()
    for side in run.ranks.values():
        if side.samples is None:
            return {}
        for record in side.samples():
            if record.step < 0:
                continue
            if record.indices is None and not record.sample_digests:
                unknown.add(record.step)
                continue
            # A sum of words does not depend on the order in which they come.
            total = sum(_word(*sample) for sample in _each(record))
            sums[record.step] = (sums.get(record.step, 0) + total) & ((1 << 64) - 1)
    return {step: word for step, word in sums.items() if step not in unknown}


def _each(record: SampleRecord) -> Iterator[tuple[int, int]]:
    # Which batches have words of all their samples depends on how many workers made them: where
    # there are indices, these alone are comparable.
    if record.indices is not None:
        return ((index, 0) for index in record.indices)
    return ((-1, word) for word in record.sample_digests)


def _word(index: int, digest: int) -> int:
    data = index.to_bytes(9, "little", signed=True) + digest.to_bytes(8, "little")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _samples(run: RunSide) -> Iterator[SampleRecord]:
    """Yield one record a step with the samples of all ranks, sorted."""
    steps: dict[int, list[SampleRecord]] = {}
    for side in run.ranks.values():
        for record in side.samples() if side.samples is not None else ():
            if record.step >= 0:
                steps.setdefault(record.step, []).append(record)
    for step in sorted(steps):
        records = steps[step]
        if any(record.indices is None for record in records):
            continue
        pairs = sorted(pair for record in records for pair in _each(record))
        yield replace(
            records[0],
            rank=0,
            step=step,
            indices=tuple(index for index, _ in pairs),
            sample_digests=tuple(digest for _, digest in pairs),
            batch_digest=0,
            worker_rng=0,
        )
