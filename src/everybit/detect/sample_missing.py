"""DAT402: a sample of the epoch never reached the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.samples import Order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from everybit.core.finding import Finding
    from everybit.core.samples import EpochEnd, Promise, SampleRecord

_MAX_TOLD: Final = 16
#: Data sets beyond this are not compared across ranks.
MAX_LENGTH: Final = 50_000_000
_WHOLE: Final = (Order.SEQUENTIAL, Order.RANDOM)


def judge_missing(
    seen: Collection[int], end: EpochEnd, *, rank: int, failed: Sequence[int] = ()
) -> Finding | None:
    """Compare the keys of a whole epoch with what the sampler promises.

    Args:
        seen: Keys that were delivered, each once.
        end: The end of the epoch.
        rank: Rank of this process.
        failed: Keys of batches in whose place an error was raised.

    Returns:
        A finding where keys are missing; None where the epoch was broken off, where the sampler
        promises no keys in particular, and where as many are missing as `drop_last` leaves out.
    """
    promise = end.promise
    count = _promised(promise)
    if not end.whole or count is None:
        return None
    allowed = count % promise.batch_size if promise.drop_last and promise.batch_size else 0
    num_missing = count - len(seen)
    if num_missing <= allowed:
        return None
    missing = []
    if promise.whole and promise.order in _WHOLE and promise.length is not None:
        missing = [key for key in range(promise.length) if key not in seen][:_MAX_TOLD]
    why = f"; {len(failed)} were lost to an error while they were loaded" if failed else ""
    return _finding(
        end,
        rank,
        f"{num_missing} of {count} samples of {end.loader} never came in epoch {end.epoch}{why}",
        missing or list(failed[:_MAX_TOLD]),
        num_missing=num_missing,
        promised=count,
        dropped_by_design=allowed,
        num_failed=len(failed),
    )


def judge_lost(keys: Sequence[int], end: EpochEnd, *, rank: int) -> Finding | None:
    """Say that batches were asked for and never delivered, though the loader came to its end.

    Args:
        keys: Their keys.
        end: The end of the epoch.
        rank: Rank of this process.
    """
    if not keys or not end.whole:
        return None
    return _finding(
        end,
        rank,
        f"{len(keys)} samples of {end.loader} were asked for in epoch {end.epoch} and never came",
        list(keys[:_MAX_TOLD]),
        num_missing=len(keys),
    )


def judge_shards(
    streams: Sequence[Iterable[SampleRecord]], promises: Sequence[Promise]
) -> list[Finding]:
    """Say which samples no rank was given in the first epoch, though all shards were read whole.

    Args:
        streams: Delivered batches of each rank, of one loader.
        promises: What its sampler promises on each rank.

    Returns:
        A finding; none where no sampler shards the data set, where a rank left the epoch before
        its end, and where shards drop what does not fill them.
    """
    length = promises[0].length if promises else None
    sharded = all(promise.order is Order.DISTRIBUTED for promise in promises)
    replicas = promises[0].num_replicas if promises else 0
    if length is None or not sharded or len(streams) != replicas or length > MAX_LENGTH:
        return []
    seen: set[int] = set()
    for stream, promise in zip(streams, promises, strict=True):
        keys = [key for record in _first_epoch(stream) for key in record.indices or ()]
        drops = promise.batch_size if promise.drop_last and promise.batch_size else 1
        if promise.num_samples is None or len(keys) <= promise.num_samples - drops:
            return []  # The loop left it, or what is missing is that rank's own finding.
        seen.update(keys)
        if promise.drop_last or promise.num_samples * replicas < length:
            return []
    missing = [key for key in range(length) if key not in seen]
    if not missing:
        return []
    return [
        rule("DAT402").finding(
            f"{len(missing)} of {length} samples came to none of the {replicas} ranks, though each "
            "read its shard whole: shards differ in seed, epoch or place",
            where=Location(link=Link.BATCH, sample=missing[0]),
            evidence={
                "samples": missing[:_MAX_TOLD],
                "num_missing": len(missing),
                "ranks": replicas,
                "shards": [promise.shard for promise in promises],
            },
            remedy="Give each rank's DistributedSampler its own `rank`, and all the same seed and "
            "epoch.",
        )
    ]


def _first_epoch(stream: Iterable[SampleRecord]) -> Iterable[SampleRecord]:
    epoch = None
    for record in stream:
        epoch = record.epoch if epoch is None else epoch
        if record.epoch != epoch:
            return
        yield record


def _promised(promise: Promise) -> int | None:
    if not promise.once or promise.order in (Order.CUSTOM, Order.ITERABLE, Order.UNKNOWN):
        return None
    return promise.num_samples


def _finding(
    end: EpochEnd, rank: int, message: str, missing: list[int], **evidence: Any
) -> Finding:
    return rule("DAT402").finding(
        message,
        where=Location(
            link=Link.BATCH,
            step=end.step,
            rank=rank,
            sample=missing[0] if missing else None,
        ),
        evidence={
            "loader": end.loader,
            "epoch": end.epoch,
            "batches": end.num_batches,
            "samples": missing,
            "sampler": end.promise.sampler,
            **evidence,
        },
    )
