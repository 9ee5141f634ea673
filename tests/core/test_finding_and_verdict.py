"""Findings and verdicts: their JSON, their order, the status and exit code that follow."""

from __future__ import annotations

import json

import pytest

from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.errors import FindingsError
from everybit.core.finding import Finding, Location, Severity, place_elements
from everybit.core.link import Link, LinkKind
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Status, Verdict

WHERE = Location(
    step=3, parameter="h.0.weight", elements=(1, 5), link=Link.STATE, byte_ranges=((0, 4), (8, 12))
)


def _finding(severity=None, **where):
    where = Location(**where) if where else WHERE
    return rule("MEM601").finding("changed", where=where, severity=severity, evidence={"a": 1})


def _verdict(*findings, skipped=(), **more):
    coverage = Coverage(checked=(Checked(what="tensors", count=2),), skipped=tuple(skipped))
    return Verdict(command="verify", target=("a",), findings=findings, coverage=coverage, **more)


MISSED = Skipped(what="digests", why="no manifest")
UNPROMISED = Skipped(what="seeds", why="not recorded", promised=False)


def test_a_finding_survives_json():
    finding = _finding()
    data = json.loads(json.dumps(finding.to_json()))
    assert Finding.from_json(data) == finding
    assert data["where"] == {
        "step": 3,
        "parameter": "h.0.weight",
        "elements": [1, 5],
        "link": "state",
        "byte_ranges": [[0, 4], [8, 12]],
    }
    assert set(data) == {
        "rule", "slug", "severity", "certainty", "message", "where", "evidence", "remedy", "id",
    }  # fmt: skip


def test_the_id_follows_rule_and_place_only():
    assert _finding().id == _finding(severity=Severity.NOTE).id
    assert len(_finding().id) == 12
    assert _finding(step=4).id != _finding(step=5).id
    other = rule("MEM602").finding("changed", where=WHERE)
    assert other.id != _finding().id


def test_a_finding_without_a_place_cannot_be_built():
    with pytest.raises(ValueError, match="needs a place"):
        rule("MEM601").finding("changed", where=Location())


def test_unknown_keys_of_a_place_are_refused():
    with pytest.raises(TypeError):
        Location.from_json({"file": "x"})


def test_the_keys_of_a_place_are_frozen():
    # The contract: these keys and no synonyms.
    assert set(Location.__dataclass_fields__) == {
        "path", "member", "tensor", "byte_range", "byte_ranges", "elements", "element_ranges",
        "line", "column", "run", "rank", "step", "link", "module", "parameter", "optimizer",
        "worker", "sample", "device", "core", "entry",
    }  # fmt: skip


def test_many_elements_are_told_as_ranges():
    assert place_elements([3, 1, 2]) == {"elements": (1, 2, 3)}
    assert place_elements(range(5, 22)) == {"element_ranges": ((5, 22),)}


def test_findings_are_ordered_by_severity():
    verdict = _verdict(
        _finding(Severity.NOTE, step=1), _finding(Severity.ERROR, step=2),
        _finding(Severity.WARNING, step=3), _finding(Severity.ERROR, step=4),
    )  # fmt: skip
    assert [finding.where.step for finding in verdict.findings] == [2, 4, 3, 1]


@pytest.mark.parametrize(
    ("findings", "skipped", "status", "codes"),
    [
        ((), (), Status.CLEAN, (0, 0, 0)),
        ((), (UNPROMISED,), Status.CLEAN, (0, 0, 0)),
        ((), (MISSED,), Status.INCONCLUSIVE, (3, 3, 3)),
        ((Severity.NOTE,), (), Status.FINDINGS, (1, 0, 0)),
        ((Severity.NOTE,), (MISSED,), Status.FINDINGS, (1, 3, 3)),
        ((Severity.WARNING,), (), Status.FINDINGS, (1, 1, 0)),
        ((Severity.ERROR,), (MISSED,), Status.FINDINGS, (1, 1, 1)),
    ],
)
def test_status_and_exit_codes(findings, skipped, status, codes):
    verdict = _verdict(*(_finding(severity) for severity in findings), skipped=skipped)
    assert verdict.status is status
    assert verdict.ok == (status is Status.CLEAN)
    assert tuple(verdict.exit_code(severity) for severity in Severity) == codes


def test_raise_for_findings():
    _verdict(skipped=(MISSED,)).raise_for_findings()
    with pytest.raises(FindingsError, match="MEM601 changed \\(and 1 more\\)"):
        _verdict(_finding(), _finding(step=9)).raise_for_findings()


def test_the_json_of_a_verdict():
    data = _verdict(_finding(), skipped=(MISSED, UNPROMISED), stats={"bytes": 5}).to_json()
    assert list(data) == [
        "schema", "command", "target", "status", "findings", "coverage", "stats",
    ]  # fmt: skip
    assert data["schema"] == "everybit.verdict/1"
    assert data["status"] == "findings"
    assert data["coverage"] == {
        "checked": [{"what": "tensors", "count": 2}],
        "skipped": [
            {"what": "digests", "why": "no manifest", "promised": True},
            {"what": "seeds", "why": "not recorded", "promised": False},
        ],
    }


def test_the_json_of_a_diff():
    first = Divergence(
        where=Location(step=2, link=Link.GRAD), kind=DivergenceKind.UNKNOWN, why="no evidence"
    )
    data = _verdict(first=first, has_first=True, explained_by=({"entry": "x"},)).to_json()
    assert data["first"] == {
        "step": 2, "rank": None, "link": "grad", "module": None, "kind": "unknown",
        "why": "no evidence",
    }  # fmt: skip
    assert data["explained_by"] == [{"entry": "x"}]
    assert _verdict(has_first=True).to_json()["first"] is None
    assert "first" not in _verdict().to_json()


def test_coverages_add_up():
    total = _verdict(skipped=(MISSED,)).coverage + Coverage(skipped=(UNPROMISED,))
    assert total.skipped == (MISSED, UNPROMISED)


def test_the_chain_in_causal_order():
    # The contract's list; a link's position is its number in a run's log.
    assert [str(link) for link in Link] == [
        "environment", "code", "file", "load", "init", "batch", "rng", "state", "forward", "loss",
        "grad", "reduce", "update", "save", "export", "output",
    ]  # fmt: skip
    assert [link.position for link in Link] == list(range(16))
    assert {str(link) for link in Link if link.kind is LinkKind.CARRIED} == {
        "file", "load", "state", "save",
    }  # fmt: skip
