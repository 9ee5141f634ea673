"""What three computations of one call say."""

from __future__ import annotations

from typing import Any

import pytest

from everybit.detect.ring_audit import Audited, judge_audit

FOUND: dict[str, Any] = {
    "step": 4,
    "owner": 1,
    "auditor": 2,
    "third": 0,
    "agreed_before": False,
    "link": "grad",
    "module": "blocks.0",
    "operation": "AddmmBackward0",
}


@pytest.mark.parametrize(
    ("digests", "rank", "verdict", "severity"),
    [
        ((7, 8, 8), 1, "persistent", "error"),
        ((7, 8, 7), 2, "the audit erred", "error"),
        ((7, 8, 9), None, "unsettled", "warning"),
        ((7, 8, 0), None, "unsettled", "warning"),
    ],
)
def test_who_is_wrong(
    digests: tuple[int, int, int], rank: int | None, verdict: str, severity: str
) -> None:
    finding = judge_audit(Audited(**FOUND, digests=digests))
    assert (finding.rule, str(finding.certainty)) == ("CMP701", "strong")
    assert (finding.where.rank, finding.evidence["verdict"]) == (rank, verdict)
    assert finding.severity == severity


def test_two_ranks_that_agreed_before() -> None:
    found = {**FOUND, "third": None, "agreed_before": True}
    finding = judge_audit(Audited(**found, digests=(7, 8, 0)))
    assert finding.severity == "error"
    assert "rank 1 or 2" in finding.message
