"""DAT405: a batch's bytes changed between delivery and use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import rule
from everybit.detect.batch_place import facts_of_batch, place_of_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord


def overwritten_on_the_way(record: SampleRecord, leaves: Sequence[str]) -> Finding:
    """Return the finding on a batch that arrived with other bytes than its worker made.

    Args:
        record: The batch.
        leaves: Paths of the tensors that changed.
    """
    return rule("DAT405").finding(
        f"batch {record.batch} of {record.loader} changed between worker {record.worker} and the"
        f" loop: {_tell(leaves)} holds other bytes than were collated",
        where=place_of_batch(record),
        evidence={"kind": "on the way", **facts_of_batch(record), "leaves": list(leaves)},
    )


def overwritten_before_use(
    record: SampleRecord, leaves: Sequence[str], *, step: int, by: SampleRecord | None
) -> Finding:
    """Return the finding on a batch that the model is given with other bytes than were delivered.

    Args:
        record: The batch as it was delivered.
        leaves: Paths of the tensors that changed, though no operation of torch wrote them.
        step: Updates finished.
        by: The batch whose bytes lie there now; None where they are no delivered batch's.
    """
    whose = f" those of batch {by.batch}" if by is not None else ""
    return rule("DAT405").finding(
        f"batch {record.batch} of {record.loader} was overwritten before the model got it:"
        f" {_tell(leaves)} holds other bytes than it was made with{',' if whose else ''}{whose}",
        where=place_of_batch(record, step=step),
        evidence={
            "kind": "before use",
            **facts_of_batch(record),
            "leaves": list(leaves),
            "became_batch": by.batch if by is not None else None,
        },
        severity=None if by is not None else Severity.WARNING,
        certainty=None if by is not None else Certainty.STRONG,
    )


def used_twice_in_place(record: SampleRecord, by: SampleRecord, *, step: int) -> Finding:
    """Return the finding on a batch in whose place a later one was used once more.

    Args:
        record: The batch that was overwritten before any model got it.
        by: The later batch in the same memory, which the model is given a second time.
        step: Updates finished.
    """
    return rule("DAT405").finding(
        f"batch {record.batch} of {record.loader} was never used: batch {by.batch} was written"
        " over it, and the model got that one twice",
        where=place_of_batch(record, step=step),
        evidence={"kind": "in its place", **facts_of_batch(record), "became_batch": by.batch},
        certainty=Certainty.STRONG,
    )


def _tell(leaves: Sequence[str]) -> str:
    shown = ", ".join(leaf or "it" for leaf in leaves[:3])
    return shown + (f" (and {len(leaves) - 3} more)" if len(leaves) > 3 else "")
