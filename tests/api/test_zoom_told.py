"""What computing a step again adds to a verdict, and what it leaves as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from everybit.api.zoom_told import tell_zoomed
from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.finding import Certainty, Location
from everybit.core.link import Link
from everybit.core.reanchored import How, Reanchored
from everybit.core.rule import rule
from everybit.core.verdict import Coverage
from everybit.diff.outcome import Outcome

FLIP = Reanchored(
    how=How.COMPUTED,
    step=4,
    module="fc",
    op="aten.addmm.default",
    phase="forward",
    num_elements=64,
    num_differing=1,
    elements=(9,),
    value_a=1.5,
    value_b=2.5,
    max_ulp=8,
    relative=1e-3,
    repeats=True,
)


def _outcome(kind: DivergenceKind, **evidence: Any) -> Outcome:
    where = Location(step=4, rank=0, link=Link.LOSS)
    finding = rule("DIF181").finding("they part", where=where, evidence=evidence)
    return Outcome(
        findings=(finding,),
        first=Divergence(where=where, kind=kind, why="as recorded"),
        coverage=Coverage(),
        stats={},
    )


def test_the_operation_becomes_the_first_value_that_parts() -> None:
    told = tell_zoomed(_outcome(DivergenceKind.UNKNOWN), FLIP)
    assert told.first is not None
    assert (told.first.kind, told.first.where.module) == (DivergenceKind.CORRUPTION, "fc")
    assert (told.first.where.link, told.first.where.elements) == (Link.FORWARD, (9,))
    (finding,) = told.findings
    assert "element 9 of 64: 1.5 in A, 2.5 in B (8 ULP at most" in finding.message
    assert finding.certainty is Certainty.PROOF
    assert finding.evidence["zoom"]["how"] == "computed"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fc.weight", ("fc.weight", None, None)),
        ("AdamW::exp_avg::fc.weight", ("fc.weight", "AdamW", "exp_avg")),
    ],
)
def test_a_carried_tensor_is_named_as_state(name: str, expected: tuple[str, Any, Any]) -> None:
    found = Reanchored(how=How.CARRIED, step=4, op="aten.mm.default", name=name, elements=(3,))
    first = tell_zoomed(_outcome(DivergenceKind.UNKNOWN), found).first
    assert first is not None
    where = first.where
    assert (where.parameter, where.optimizer, where.tensor) == expected
    assert where.link is Link.STATE


def test_weak_corruption_does_not_outlive_a_step_that_does_not_repeat() -> None:
    outcome = _outcome(DivergenceKind.CORRUPTION)
    assert outcome.first is not None
    found = Reanchored(how=How.UNREPEATED, step=4, detail="c.json, which A reads, was changed")
    for certainty, kind in (("weak", "unknown"), ("strong", "corruption")):
        told = tell_zoomed(
            replace(outcome, first=replace(outcome.first, certainty=certainty)), found
        )
        assert told.first is not None
        assert told.first.kind == kind
        assert "c.json" in told.findings[0].message
        assert "read then" in told.findings[0].remedy


@pytest.mark.parametrize(
    ("kind", "found", "evidence"),
    [
        (DivergenceKind.DATA, FLIP, {}),
        (DivergenceKind.CORRUPTION, FLIP, {"explained_by_finding": {}}),
        (DivergenceKind.NOISE, Reanchored(how=How.UNREPEATED, step=4), {}),
        (DivergenceKind.UNKNOWN, Reanchored(how=How.EQUAL, step=4), {}),
    ],
)
def test_what_the_record_proves_and_what_says_nothing_change_no_kind(
    kind: DivergenceKind, found: Reanchored, evidence: dict[str, Any]
) -> None:
    told = tell_zoomed(_outcome(kind, **evidence), found)
    assert told.first is not None
    assert (told.first.kind, told.first.why) == (kind, "as recorded")
    assert "zoom" in told.findings[0].evidence
    came = "element 9" if found is FLIP else "this time" if found.how is How.EQUAL else "again"
    assert came in told.findings[0].message.partition("; computed again: ")[2]
