"""Verdicts on their way out: exit codes, `-o`, colour, readers that go away."""

from __future__ import annotations

import errno
import json
import os

import pytest

from everybit.cli import output as module
from everybit.cli.output import Output, wants_color
from everybit.core.config import Config
from everybit.core.errors import PathError
from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.core.verdict import Coverage, Skipped, Verdict


def _verdict(*severities, skipped=False, value=1.0):
    missed = (Skipped(what="digests", why="no manifest"),) if skipped else ()
    return Verdict(
        command="toy",
        target=("a",),
        findings=tuple(
            rule("FIL102").finding(
                "it changed", where=Location(path="m"), severity=severity, evidence={"v": value}
            )
            for severity in severities
        ),
        coverage=Coverage(skipped=missed),
    )


@pytest.mark.parametrize(
    ("verdict", "args", "code"),
    [
        (_verdict(), (), 0),
        (_verdict(skipped=True), (), 3),
        (_verdict(skipped=True), ("--exit-zero",), 0),
        (_verdict(Severity.ERROR), (), 1),
        (_verdict(Severity.ERROR), ("--exit-zero",), 0),
        (_verdict(Severity.WARNING), (), 0),
        (_verdict(Severity.WARNING), ("--fail-on", "warning"), 1),
        (_verdict(Severity.NOTE, skipped=True), ("--fail-on", "warning"), 3),
        (_verdict(Severity.NOTE), ("--fail-on", "note"), 1),
    ],
)
def test_exit_codes(run, toy, verdict, args, code):
    toy(lambda output, **_: output.verdict(verdict))
    found, out, err = run("toy", "--json", *args)
    assert (found, err) == (code, "")
    assert json.loads(out) == json.loads(json.dumps(verdict.to_json()))


def test_text_is_the_default_and_carries_the_finding(run, toy):
    toy(lambda output, **_: output.verdict(_verdict(Severity.ERROR)))
    _, out, _ = run("toy")
    assert "FIL102" in out
    assert "it changed" in out
    assert "\x1b" not in out


def test_json_is_strict_whatever_the_evidence_holds(run, toy):
    toy(lambda output, **_: output.verdict(_verdict(Severity.ERROR, value=float("nan"))))
    out = run("toy", "--json")[1]

    def refuse(constant):
        raise AssertionError(constant)

    assert json.loads(out, parse_constant=refuse)["findings"][0]["evidence"] == {"v": "NaN"}


def test_o_writes_the_file_and_keeps_stdout_free(run, toy, tmp_path):
    toy(lambda output, **_: output.verdict(_verdict(Severity.ERROR)))
    target = tmp_path / "v.json"
    code, out, err = run("toy", "--json", "-o", str(target))
    assert (code, out) == (1, "")
    assert err == f"everybit: verdict (findings) written to {target}\n"
    assert json.loads(target.read_text())["status"] == "findings"
    assert run("toy", "--json", "-q", "-o", str(target))[2] == ""


def test_a_verdict_that_cannot_be_written_is_not_lost(run, toy, tmp_path, monkeypatch):
    def fail(path, data):
        raise PathError.from_os_error(OSError(errno.ENOSPC, "No space left on device"), path)

    monkeypatch.setattr(module, "write_atomically", fail)
    toy(lambda output, **_: output.verdict(_verdict(Severity.ERROR)))
    code, out, err = run("toy", "--json", "-o", str(tmp_path / "v.json"))
    assert code == 2
    assert json.loads(out)["status"] == "findings"
    assert "no space left on device" in err


def test_the_exit_code_outlives_the_reader(toy, monkeypatch):
    # As in `everybit verify x | head -n 1`: the verdict stands although nobody reads on.
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        monkeypatch.setattr(module.sys, "stdout", broken)
        assert Output(Config()).verdict(_verdict(Severity.ERROR)) == 1


class _Stream:
    def __init__(self, terminal):
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "variables", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(monkeypatch, terminal, variables, expected):
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_color(_Stream(terminal)) is expected


def test_forced_colour_reaches_stdout_and_never_a_file(run, toy, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    toy(lambda output, **_: output.verdict(_verdict(Severity.ERROR)))
    assert "\x1b[" in run("toy")[1]
    run("toy", "-o", str(tmp_path / "v.txt"))
    assert "\x1b" not in (tmp_path / "v.txt").read_text()
