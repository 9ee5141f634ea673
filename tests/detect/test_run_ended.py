from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bench.ledger_campaign import flip, make_run, make_step

from everybit.core.finding import Certainty, Severity
from everybit.detect.run_ended import judge_damage, judge_end
from everybit.ledger import EndReason, RunWriter, open_run, process

if TYPE_CHECKING:
    from everybit.core.finding import Finding

ROOT = Path(__file__).resolve().parents[2]
LOG = "rank-00000.attempt-000.log"


def record(folder: Path, num_steps: int = 4) -> RunWriter:
    writer = RunWriter.open(folder)
    for number in range(num_steps):
        writer.step(make_step(number))
    return writer


def ended(folder: Path, reason: EndReason, code: int = 0, detail: str = "") -> Finding | None:
    record(folder).end(reason, code=code, detail=detail)
    return judge_end(open_run(folder).log())


def killed(folder: Path) -> None:
    code = (
        "import os, sys\n"
        "from bench.ledger_campaign import make_step\n"
        "from everybit.ledger import RunWriter\n"
        "writer = RunWriter.open(sys.argv[1])\n"
        "for k in range(4): writer.step(make_step(k))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("reason", [EndReason.CLEAN, EndReason.EXIT])
def test_a_clean_end_is_no_finding(tmp_path: Path, reason: EndReason) -> None:
    assert ended(tmp_path, reason) is None
    assert judge_damage(open_run(tmp_path)) == []


def test_a_run_that_goes_on_is_no_finding(tmp_path: Path) -> None:
    writer = record(tmp_path)
    assert judge_end(open_run(tmp_path).log()) is None
    writer.close()


def test_an_exception_is_told(tmp_path: Path) -> None:
    finding = ended(tmp_path, EndReason.EXCEPTION, code=1, detail="ValueError: no such batch")
    assert finding is not None
    assert (finding.rule, finding.severity) == ("RUN151", Severity.ERROR)
    assert "ValueError: no such batch; the last step on record is 3" in finding.message
    assert finding.where.to_json() == {"path": LOG, "step": 4, "rank": 0}
    assert finding.evidence["reason"] == "exception"
    assert finding.evidence["last_step"] == 3


@pytest.mark.parametrize(("code", "name"), [(15, "SIGTERM"), (250, "signal 250")])
def test_a_signal_is_told(tmp_path: Path, code: int, name: str) -> None:
    finding = ended(tmp_path, EndReason.SIGNAL, code=code)
    assert finding is not None
    assert finding.severity is Severity.ERROR
    assert f"was ended by {name}" in finding.message


def test_a_chosen_exit_code_is_a_note(tmp_path: Path) -> None:
    finding = ended(tmp_path, EndReason.EXIT, code=3)
    assert finding is not None
    assert finding.severity is Severity.NOTE
    assert "exit code 3" in finding.message


def test_a_kill_is_told_from_the_missing_end_record(tmp_path: Path) -> None:
    killed(tmp_path)
    log = open_run(tmp_path).log()
    finding = judge_end(log)
    assert finding is not None
    assert (finding.severity, finding.certainty) == (Severity.ERROR, Certainty.PROOF)
    assert "no end record" in finding.message
    assert finding.evidence["reason"] is None
    assert finding.evidence["torn"] is False
    assert judge_damage(open_run(tmp_path)) == []
    note = judge_end(log, resumed=True)
    assert note is not None
    assert note.severity is Severity.NOTE


def test_a_torn_frame_is_a_kill_not_damage(tmp_path: Path) -> None:
    killed(tmp_path)
    with (tmp_path / LOG).open("ab") as stream:
        stream.write((tmp_path / LOG).read_bytes()[:300])
    finding = judge_end(open_run(tmp_path).log())
    assert finding is not None
    assert finding.evidence["torn"] is True
    assert judge_damage(open_run(tmp_path)) == []


def test_a_run_on_another_machine_may_still_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(tmp_path)
    monkeypatch.setattr(process, "_host", lambda: "0" * 16)
    finding = judge_end(open_run(tmp_path).log())
    assert finding is not None
    assert (finding.severity, finding.certainty) == (Severity.WARNING, Certainty.WEAK)
    assert "another machine" in finding.message


def test_a_damaged_end_is_one_finding(tmp_path: Path) -> None:
    record(tmp_path).end(EndReason.CLEAN)
    flip(tmp_path / LOG, (tmp_path / LOG).stat().st_size - 3, 2)
    run = open_run(tmp_path)
    assert judge_end(run.log()) is None
    findings = judge_damage(run)
    assert [finding.rule for finding in findings] == ["RUN152"]
    assert findings[0].where.byte_range is not None
    assert findings[0].where.byte_range[1] == (tmp_path / LOG).stat().st_size


def test_damage_in_the_middle_names_the_steps_around_it(tmp_path: Path) -> None:
    record(tmp_path, 9).end(EndReason.CLEAN)
    size = (tmp_path / LOG).stat().st_size
    flip(tmp_path / LOG, size * 2 // 3, 5)
    (finding,) = judge_damage(open_run(tmp_path))
    assert (finding.rule, finding.severity, finding.certainty) == (
        "RUN152",
        Severity.ERROR,
        Certainty.PROOF,
    )
    assert finding.where.path == LOG
    assert finding.where.rank == 0
    assert finding.evidence["step_after"] == finding.evidence["step_before"] + 2
    assert "intact up to step" in finding.message


def test_a_damaged_run_json_is_told(tmp_path: Path) -> None:
    make_run(tmp_path)
    assert judge_damage(open_run(tmp_path)) == []
    flip(tmp_path / "run.json", 20, 0)
    (finding,) = judge_damage(open_run(tmp_path))
    assert finding.where.path == "run.json"
    assert finding.where.rank is None
