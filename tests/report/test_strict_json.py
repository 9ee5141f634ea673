from __future__ import annotations

import json
import math

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.core.verdict import Verdict
from everybit.report.strict_json import verdict_json


def refuse(name: str) -> None:
    raise AssertionError(f"bare {name} in JSON")


def test_non_finite_numbers_become_text():
    finding = rule("MEM601").finding(
        "m",
        where=Location(parameter="w"),
        evidence={"loss": math.nan, "nested": [{"x": -math.inf}], 3: (1, {2})},
    )
    verdict = Verdict(
        command="run", target=("a\udc80",), findings=(finding,), stats={"share": math.inf}
    )
    text = verdict_json(verdict)
    data = json.loads(text, parse_constant=refuse)
    assert text.isascii()
    assert data["stats"] == {"share": "Infinity"}
    assert data["findings"][0]["evidence"] == {
        "loss": "NaN",
        "nested": [{"x": "-Infinity"}],
        "3": [1, [2]],
    }
    assert data["target"] == ["a\udc80"]


def test_what_is_strict_already_stays_the_same():
    verdict = Verdict(command="verify", target=("m.pt",), stats={"bytes": 3, "seconds": 0.5})
    assert json.loads(verdict_json(verdict)) == verdict.to_json()
