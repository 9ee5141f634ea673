"""Every way a run can end, and what its verdict says then."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat

import pytest
from tests.report.run_maker import RunMaker, flip

from everybit.api.report import report, verdict_of_run, write_verdict
from everybit.core.errors import PathError
from everybit.core.finding import Severity
from everybit.core.verdict import Checked, Coverage, Status, Verdict
from everybit.ledger import EndReason, open_run


def judge(run: RunMaker) -> Verdict:
    return verdict_of_run(open_run(run.path))


def rules(verdict: Verdict) -> list[str]:
    return [finding.rule for finding in verdict.findings]


def missed(verdict: Verdict) -> list[str]:
    return [item.what for item in verdict.coverage.skipped if item.promised]


def test_a_clean_run_is_clean(make_run: RunMaker):
    make_run.attempt()
    verdict = judge(make_run)
    assert verdict.status is Status.CLEAN
    assert verdict.exit_code() == 0
    assert [(item.what, item.count) for item in verdict.coverage.checked] == [
        ("tensors at rest", 120)
    ]
    assert verdict.stats["state"] == "ended cleanly"
    assert (verdict.stats["first_step"], verdict.stats["last_step"]) == (0, 19)
    assert verdict.stats["steps"] == 20
    assert verdict.stats["guard_seconds"] == 0.12


def test_recorded_findings_are_told_with_their_rank(make_run: RunMaker):
    make_run.attempt(findings=(flip(step=3),))
    verdict = judge(make_run)
    assert rules(verdict) == ["MEM601"]
    assert verdict.findings[0].where.rank == 0
    assert verdict.exit_code() == 1


def test_findings_of_all_ranks_come_in_order_of_step(make_run: RunMaker):
    make_run.attempt(rank=0, world_size=2, findings=(flip(step=9), flip(step=5)))
    make_run.attempt(rank=1, world_size=2, findings=(flip(step=7),))
    verdict = judge(make_run)
    assert [(f.where.step, f.where.rank) for f in verdict.findings] == [(5, 0), (7, 1), (9, 0)]
    assert verdict.coverage.checked[0].count == 240
    assert len(verdict.coverage.skipped) == 1
    assert verdict.stats["seconds"] == 24.0
    assert verdict.stats["ranks"] == 2
    assert verdict.stats["steps"] == 20
    assert "steps_by_attempt" not in verdict.stats


def test_what_there_is_does_not_add_up_and_what_was_done_does(make_run: RunMaker, monkeypatch):
    from tests.report import run_maker

    monkeypatch.setattr(run_maker, "STATS", {"tensors": 16, "bytes": 640, "tests": 30})
    coverage = Coverage(
        checked=(
            Checked(what="tensors under marks", count=16),
            Checked(what="digests recorded", count=100),
        )
    )
    for rank in (0, 1):
        make_run.attempt(rank=rank, world_size=2, coverage=coverage)
    make_run.attempt(range(5), rank=0, world_size=2, coverage=coverage)
    verdict = judge(make_run)
    counts = {item.what: item.count for item in verdict.coverage.checked}
    assert counts == {"tensors under marks": 16, "digests recorded": 300}
    assert (verdict.stats["tensors"], verdict.stats["bytes"]) == (16, 640)
    assert verdict.stats["tests"] == 90
    assert verdict.stats["steps_by_attempt"] == "0 to 19, then 0 to 4"


def test_a_run_that_is_still_going_is_never_clean(make_run: RunMaker):
    make_run.attempt(end=None, close=False)
    verdict = judge(make_run)
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.exit_code() == 3
    assert missed(verdict) == ["the rest of the run"]
    assert verdict.stats["state"] == "still going"


def test_a_killed_run_is_a_finding_and_its_account_is_missed(make_run: RunMaker):
    make_run.killed()
    verdict = judge(make_run)
    assert rules(verdict) == ["RUN151"]
    assert verdict.exit_code() == 1
    assert missed(verdict) == ["the guard's account of its checks"]
    assert verdict.stats["state"] == "killed"


def test_a_resumed_run_keeps_its_killed_attempt_as_a_note(make_run: RunMaker):
    make_run.killed(findings=(flip(step=4),))
    make_run.attempt(range(15, 40))
    verdict = judge(make_run)
    assert [(f.rule, f.severity) for f in verdict.findings] == [
        ("MEM601", Severity.ERROR),
        ("RUN151", Severity.NOTE),
    ]
    assert "attempt" not in verdict.findings[0].evidence
    assert missed(verdict) == ["the guard's account of its checks"]
    assert verdict.stats["state"] == "ended cleanly"
    assert verdict.stats["attempts"] == 2
    assert verdict.stats["last_step"] == 39
    assert verdict.stats["steps"] == 45


def test_a_finding_of_a_later_attempt_names_it(make_run: RunMaker):
    make_run.attempt()
    make_run.attempt(range(10, 30), findings=(flip(step=12),))
    assert judge(make_run).findings[0].evidence["attempt"] == 1


@pytest.mark.parametrize(
    ("end", "code", "detail", "severity"),
    [
        (EndReason.EXCEPTION, 1, "RuntimeError: boom", Severity.ERROR),
        (EndReason.SIGNAL, 15, "SIGTERM", Severity.ERROR),
        (EndReason.EXIT, 3, "", Severity.NOTE),
    ],
)
def test_a_bad_end_is_told(make_run: RunMaker, end, code, detail, severity):
    make_run.attempt(end=end, code=code, detail=detail)
    verdict = judge(make_run)
    assert [(f.rule, f.severity) for f in verdict.findings] == [("RUN151", severity)]
    assert detail in verdict.findings[0].message
    assert missed(verdict) == []


def test_exit_code_zero_is_a_clean_end(make_run: RunMaker):
    make_run.attempt(end=EndReason.EXIT, code=0)
    assert judge(make_run).status is Status.CLEAN


def test_a_run_without_a_step_is_inconclusive(make_run: RunMaker):
    make_run.attempt(range(0))
    verdict = judge(make_run)
    assert verdict.status is Status.INCONCLUSIVE
    assert missed(verdict) == ["the steps"]


def test_a_folder_without_a_log_is_inconclusive_or_damaged(make_run: RunMaker):
    make_run.attempt()
    for log in make_run.logs():
        log.unlink()
    verdict = judge(make_run)
    assert verdict.status is not Status.CLEAN
    assert missed(verdict) == ["every check of the guard"]


def test_a_flipped_bit_in_the_record_is_told_and_never_clean(make_run: RunMaker):
    make_run.attempt()
    log = make_run.logs()[0]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 4
    log.write_bytes(data)
    verdict = judge(make_run)
    assert "RUN152" in rules(verdict)
    assert "the damaged parts of the record" in missed(verdict)
    assert report(make_run.path).exists()


def test_write_verdict_writes_strict_private_json(make_run: RunMaker):
    make_run.attempt(findings=(flip(step=3),))
    verdict = write_verdict(make_run.path)
    file = make_run.path / "verdict.json"
    data = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert data["schema"] == "everybit.verdict/1"
    assert data["command"] == "run"
    assert data["status"] == "findings"
    assert [finding["id"] for finding in data["findings"]] == [f.id for f in verdict.findings]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # Written again, by a second attempt, it is replaced; nothing else is left behind.
    write_verdict(make_run.path)
    assert [path.name for path in make_run.path.iterdir() if "verdict" in path.name] == [
        "verdict.json"
    ]


def test_report_names_what_is_no_run(tmp_path):
    with pytest.raises(PathError, match="nowhere"):
        report(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PathError, match="not a run folder"):
        report(tmp_path / "empty")


def test_report_writes_where_it_is_told(make_run: RunMaker, tmp_path):
    make_run.attempt()
    out = tmp_path / "page.html"
    assert report(make_run.path, out) == out
    assert out.read_text().startswith("<!doctype html>")
    assert not (make_run.path / "report.html").exists()
    assert report(str(make_run.path)) == make_run.path / "report.html"
    with pytest.raises(PathError, match="does not exist"):
        report(make_run.path, tmp_path / "missing" / "page.html")


def test_a_kill_at_any_length_of_the_log_leaves_a_report(make_run: RunMaker):
    make_run.killed(range(4))
    log = make_run.logs()[0]
    whole = log.read_bytes()
    for length in {*range(0, len(whole), 37), len(whole) - 1}:
        log.write_bytes(whole[:length])
        verdict = judge(make_run)
        assert verdict.status is Status.FINDINGS, length
        assert verdict.exit_code() == 1, length
        report(make_run.path)
    os.truncate(log, 0)
    assert judge(make_run).exit_code() == 1


def test_a_copied_run_reads_the_same(make_run: RunMaker, tmp_path):
    make_run.killed(findings=(flip(step=4),))
    shutil.copytree(make_run.path, tmp_path / "copy")
    copied = verdict_of_run(open_run(tmp_path / "copy"))
    assert rules(copied) == rules(judge(make_run))


def test_any_flipped_bit_still_gives_a_report_that_is_not_clean(make_run: RunMaker):
    make_run.attempt(range(6), findings=(flip(step=3),))
    rng = random.Random(7)
    files = [*make_run.logs(), make_run.path / "run.json"]
    for _ in range(60):
        file = rng.choice(files)
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        verdict = judge(make_run)
        assert verdict.exit_code() == 1
        assert "RUN152" in rules(verdict) or "RUN151" in rules(verdict)
        report(make_run.path)
        file.write_bytes(whole)
