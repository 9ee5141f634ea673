"""SARIF, JUnit and GitHub annotations: what other tools read of a verdict."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

import everybit
from everybit.cli import main
from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.report.github import verdict_github
from everybit.report.junit import verdict_junit
from everybit.report.sarif import verdict_sarif

HOSTILE = "a\x1b[31m]]>\n::error::no%0Aé\x00.pt"


def verdict(target="models", **changes):
    values = {
        "command": "verify",
        "target": (str(target),),
        "findings": (
            rule("FIL102").finding(
                "tensor h.0.weight changed",
                where=Location(path="model.pt", tensor="h.0.weight", byte_range=(64, 68)),
                evidence={"loss": float("nan")},
            ),
            rule("FIL111").finding("a size departs", where=Location(path=HOSTILE)),
        ),
        "coverage": Coverage(
            checked=(Checked(what="files against their seal", count=3),),
            skipped=(
                Skipped(what="old.pt", why="it cannot be read"),
                Skipped(what="names", why="too deep", promised=False),
            ),
        ),
        "stats": {"seconds": 0.25},
    }
    return Verdict(**{**values, **changes})


def test_sarif_names_rule_level_file_and_bytes(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"x" * 100)
    log = json.loads(verdict_sarif(verdict(tmp_path), exit_code=1))
    run = log["runs"][0]
    assert log["version"] == "2.1.0"
    assert [entry["id"] for entry in run["tool"]["driver"]["rules"]] == ["FIL102", "FIL111"]
    first = run["results"][0]
    place = first["locations"][0]
    assert first["level"] == "error"
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "FIL102"
    assert place["physicalLocation"]["artifactLocation"]["uri"] == f"file://{tmp_path}/model.pt"
    assert place["physicalLocation"]["region"] == {"byteOffset": 64, "byteLength": 4}
    assert place["logicalLocations"] == [{"name": "h.0.weight", "kind": "variable"}]
    assert first["partialFingerprints"]["everybitId/v1"] == verdict(tmp_path).findings[0].id
    assert first["properties"]["evidence"] == {"loss": "NaN"}


def test_sarif_says_what_was_not_checked_and_that_the_run_itself_succeeded():
    call = json.loads(verdict_sarif(verdict(), exit_code=1))["runs"][0]["invocations"][0]
    assert call["executionSuccessful"] is True
    assert call["exitCode"] == 1
    assert [note["level"] for note in call["toolExecutionNotifications"]] == ["warning", "note"]


def test_sarif_points_at_lines_of_source():
    found = rule("FIL118").finding("a page", where=Location(path="a b.py", line=7, column=3))
    log = json.loads(verdict_sarif(verdict("x", findings=(found,)), exit_code=1))
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 7, "startColumn": 3}
    assert place["artifactLocation"]["uri"] == "a%20b.py"


def test_every_rule_can_be_described_in_sarif():
    from everybit.core.rule import rule_ids

    found = tuple(rule(key).finding("m", where=Location(path="p")) for key in rule_ids())
    log = json.loads(verdict_sarif(verdict(findings=found), exit_code=1))
    for entry in log["runs"][0]["tool"]["driver"]["rules"]:
        assert entry["shortDescription"]["text"]
        assert entry["defaultConfiguration"]["level"] in ("note", "warning", "error")


def test_junit_counts_failures_errors_and_passes():
    suite = ElementTree.fromstring(verdict_junit(verdict(), fail_on=Severity.ERROR))[0]
    counted = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped", "time")}
    assert counted == {
        "tests": "5", "failures": "1", "errors": "1", "skipped": "1", "time": "0.25",
    }  # fmt: skip
    assert "h.0.weight" in suite.find("testcase/failure").text


def test_junit_fails_what_is_at_or_above_the_severity():
    strict = ElementTree.fromstring(verdict_junit(verdict(), fail_on=Severity.NOTE))[0]
    assert strict.get("failures") == "2"


def test_github_annotates_and_cannot_be_made_to_say_more():
    lines = verdict_github(verdict()).splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("::error file=model.pt,title=FIL102 tensor-bytes-changed::")
    # One line each, whatever a name holds: no command of its own, no escape that is decoded.
    assert lines[1].startswith("::warning file=")
    assert "%0A" not in lines[1].replace("%250A", "")
    assert "\x1b" not in lines[1]
    assert lines[2].startswith("::warning title=everybit could not check::old.pt")
    assert lines[3] == "everybit verify: findings (files against their seal: 3)"


def test_github_says_the_line():
    found = rule("FIL118").finding("a page", where=Location(path="a.py", line=7, column=3))
    line = verdict_github(verdict(findings=(found,))).splitlines()[0]
    assert line.startswith("::error file=a.py,line=7,col=3,title=FIL118 not-a-model::a page")


@pytest.mark.parametrize("form", ["sarif", "junit", "github"])
def test_the_command_line_prints_each(form, tmp_path, capsys):
    (tmp_path / "model.pt").write_text("<!doctype html><html></html>")
    code = main(["verify", str(tmp_path), "--format", form])
    text = capsys.readouterr().out
    assert code == 1
    assert "FIL118" in text
    assert str(everybit.verify(tmp_path).status) == "findings"
