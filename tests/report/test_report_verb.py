from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.report.run_maker import RunMaker, flip

import everybit
from everybit.cli import main
from everybit.ledger import EndReason

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["report", *(str(each) for each in arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_text_on_stdout_and_the_page_in_the_run_folder(make_run: RunMaker, capsys):
    make_run.attempt(findings=(flip(step=3),))
    code, out, err = call(capsys, make_run.path)
    assert code == 1
    assert "MEM601" in out
    assert "report.html" not in out
    assert err == f"everybit: page written to {make_run.path / 'report.html'}\n"
    assert (make_run.path / "report.html").is_file()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, 0),
        ({"end": EndReason.EXIT, "code": 3}, 0),
        ({"end": EndReason.EXCEPTION, "code": 1, "detail": "ValueError"}, 1),
        ({"coverage": None}, 3),
        ({"findings": (flip(step=3),)}, 1),
    ],
)
def test_the_exit_code_is_the_verdicts(make_run: RunMaker, capsys, options, code):
    make_run.attempt(**options)
    assert call(capsys, make_run.path)[0] == code
    assert call(capsys, make_run.path, "--exit-zero")[0] == 0


def test_json_is_the_verdict_and_writes_no_page_unless_asked(make_run: RunMaker, capsys, tmp_path):
    make_run.attempt()
    code, out, _ = call(capsys, make_run.path, "--json")
    assert code == 0
    assert json.loads(out)["command"] == "run"
    assert not (make_run.path / "report.html").exists()
    call(capsys, make_run.path, "--json", "--out", tmp_path / "p.html")
    assert (tmp_path / "p.html").is_file()


def test_bad_requests_are_one_line_and_exit_2(make_run: RunMaker, capsys, tmp_path):
    make_run.attempt()
    (tmp_path / "empty").mkdir()
    for arguments in (
        [tmp_path / "nowhere"],
        [tmp_path / "empty"],
        [make_run.path / "run.json"],
        [make_run.path, "--out", tmp_path / "no" / "page.html"],
        [make_run.path, "--out", tmp_path],
        [make_run.path, "--out", "/proc/page.html"],
    ):
        code, out, err = call(capsys, *arguments)
        assert code == 2, arguments
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("everybit: ")


def test_a_full_disk_is_one_line_and_exit_2(make_run: RunMaker, capsys):
    make_run.attempt()
    code, out, err = call(capsys, make_run.path, "--out", "/dev/full")
    assert (code, err.count("\n")) == (2, 1)
    assert "no space left" in err
    assert out == ""


def test_an_unwritable_run_folder_advises_out(make_run: RunMaker, capsys):
    make_run.attempt()
    (make_run.path / "report.html").mkdir()
    code, _, err = call(capsys, make_run.path)
    assert code == 2
    assert "--out" in err


def test_report_needs_no_torch_and_numpy_neither(make_run: RunMaker):
    make_run.attempt()
    probe = (
        "import sys, everybit; everybit.report(sys.argv[1]);"
        "sys.exit(sum(name in sys.modules for name in ('torch', 'numpy', 'rich')))"
    )
    done = subprocess.run([sys.executable, "-c", probe, make_run.path], timeout=60, check=False)
    assert done.returncode == 0


def test_the_function_is_public(make_run: RunMaker):
    make_run.attempt()
    assert everybit.report(make_run.path) == make_run.path / "report.html"
