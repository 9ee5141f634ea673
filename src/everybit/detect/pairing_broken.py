"""DAT413: inputs and labels of a batch are paired otherwise than in the data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import rule
from everybit.detect.batch_place import MAX_NAMED, facts_of_batch, place_of_batch

if TYPE_CHECKING:
    from everybit.core.contents import BatchFacts
    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord


class PairingBroken:
    """Pairs that collate or the data set broke; each way is told once a loader."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def judge(self, record: SampleRecord, facts: BatchFacts, *, shift: int = 0) -> list[Finding]:
        """Return what is wrong with the pairs of a batch.

        Args:
            record: The batch.
            facts: What was seen while it was fetched.
            shift: By how many places all its labels are off the data set's own list of them.
        """
        found = []
        if facts.pairing is not None and self._is_new(record, "collate"):
            found.append(_collate(record, facts))
        if shift and self._is_new(record, "shifted"):
            found.append(_shifted(record, shift))
        return found

    def _is_new(self, record: SampleRecord, kind: str) -> bool:
        key = (record.loader, kind)
        new = key not in self._told
        self._told.add(key)
        return new


def _collate(record: SampleRecord, facts: BatchFacts) -> Finding:
    pairing = facts.pairing
    assert pairing is not None
    how = f"rolled by {pairing.shift}" if pairing.shift else "in another order"
    return rule("DAT413").finding(
        f"batch {record.batch} of {record.loader}: {pairing.astray} lies {how} against"
        f" {pairing.steady}, samples and labels are paired wrongly by collate",
        where=place_of_batch(record),
        evidence={
            "kind": "collate",
            **facts_of_batch(record),
            "steady": pairing.steady,
            "astray": pairing.astray,
            "shift": pairing.shift,
            "rows": list(pairing.rows[:MAX_NAMED]),
        },
    )


def _shifted(record: SampleRecord, shift: int) -> Finding:
    return rule("DAT413").finding(
        f"every sample of {record.loader} comes with the label of the one"
        f" {'behind' if shift > 0 else 'before'} it in the data set's own list",
        where=place_of_batch(record, sample=record.indices[0] if record.indices else None),
        evidence={"kind": "shifted", **facts_of_batch(record), "shift": shift},
        severity=Severity.WARNING,
        certainty=Certainty.STRONG,
    )
