"""Samples of all ranks side by side, from the record of a run: DAT401 and DAT402 across ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.samples import Promise
from everybit.detect.sample_missing import judge_shards
from everybit.detect.sample_repeated import judge_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord
    from everybit.ledger import RunReader


def judge_samples(run: RunReader) -> list[Finding]:
    """Say where ranks read the same samples that nothing shards, or shards leave samples out.

    Only the first epoch of each loader is read. Nothing is said of a run of one rank, of a rank
    whose log is damaged, or while the run goes on.
    """
    if len(run.ranks) < 2 or run.alive:
        return []
    by_rank = {rank: _promises(run, rank) for rank in run.ranks}
    found: list[Finding] = []
    for loader in by_rank[run.ranks[0]]:
        promises = [known.get(loader) for known in by_rank.values()]
        known = [promise for promise in promises if promise is not None]
        if len(known) < len(run.ranks):
            continue
        streams = [_stream(run, rank, loader) for rank in run.ranks]
        found += judge_ranks(streams, known)
        streams = [_stream(run, rank, loader) for rank in run.ranks]
        found += judge_shards(streams, known)
    return found


def _promises(run: RunReader, rank: int) -> dict[str, Promise]:
    promises: dict[str, Promise] = {}
    for observation in run.log(rank).observations:
        if observation.kind == "loader":
            try:
                promise = Promise.from_json(observation.data)
            except (TypeError, ValueError):
                continue
            promises.setdefault(str(observation.data.get("loader")), promise)
    return promises


def _stream(run: RunReader, rank: int, loader: str) -> Iterator[SampleRecord]:
    return (record for record in run.samples(rank) if record.loader == loader)
