"""The place of a finding on a batch: step, rank, worker, sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.finding import Location
from everybit.core.link import Link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.core.samples import SampleRecord

#: Samples that are named in a finding.
MAX_NAMED = 16


def place_of_batch(record: SampleRecord, **keys: Any) -> Location:
    """Return the location of something in a batch.

    Args:
        record: The batch.
        **keys: Any other keys of the location.
    """
    worker = record.worker if record.worker >= 0 else None
    step = record.step if record.step >= 0 else None
    return Location(
        **{"step": step, "rank": record.rank, "worker": worker, "link": Link.BATCH} | keys
    )


def facts_of_batch(record: SampleRecord) -> dict[str, Any]:
    """Return the evidence that names a batch."""
    return {"loader": record.loader, "epoch": record.epoch, "batch": record.batch}


def name_samples(samples: Iterable[int], *, word: str = "sample") -> str:
    """Say which samples; many are folded.

    >>> name_samples([3]), name_samples([3, 5]), name_samples(range(9))
    ('sample 3', 'samples 3, 5', 'samples 0, 1, 2, 3 and 5 more')
    """
    listed = list(samples)
    if len(listed) == 1:
        return f"{word} {listed[0]}"
    shown = ", ".join(map(str, listed[:4]))
    return f"{word}s {shown}" + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
