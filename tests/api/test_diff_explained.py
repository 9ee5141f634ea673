"""What `diff` says beside the place: an edited file, changed lines, known issues, other roles."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from tests.forked import Job, run_forked

import everybit
from everybit.api.diff_code import MAX_COLUMNS, MAX_LINES, with_lines
from everybit.cli import everybit as command
from everybit.core.errors import UsageError
from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.diff.side import RunSide
from everybit.ledger import EndReason, RunWriter

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = """
    import json
    import sys
    from pathlib import Path

    import torch

    settings = json.loads(Path(__file__).with_name("cfg.json").read_text())
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    if "evaluate" in sys.argv:
        with torch.no_grad():
            model.eval()(torch.randn(4, 8))
        sys.exit()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(4, 8)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Runs of one program, with another file beside it, another line, and another task."""
    place = tmp_path_factory.mktemp("explained")
    edited = TRAIN.replace("lr=0.1", "lr=0.2")
    programs = {"plain": (TRAIN, 9.0), "file": (TRAIN, 0.001), "line": (edited, 9.0)}
    for name, (text, clip) in programs.items():
        (place / name).mkdir()
        (place / name / "train.py").write_text(textwrap.dedent(text))
        (place / name / "cfg.json").write_text(f'{{"clip": {clip}}}')
    jobs = [
        Job(
            name=name,
            script=[f"{folder}/train.py", *more],
            options=["run", "--run", f"runs/{name}"],
        )
        for name, folder, more in (
            ("plain", "plain", ()),
            ("again", "plain", ()),
            ("file", "file", ()),
            ("line", "line", ()),
            ("evaluation", "plain", ("evaluate",)),
        )
    ]
    for code, _, errors in run_forked(place, jobs).values():
        assert code == 0, errors
    return {job.name: place / "runs" / job.name for job in jobs} | {"place": place}


def entries(verdict: Any) -> dict[str, Any]:
    return {each["entry"]: each for each in verdict.explained_by}


def test_an_edited_configuration_file_is_what_parts_two_runs(runs) -> None:
    verdict = everybit.diff(runs["plain"], runs["file"])
    assert (verdict.first.kind, verdict.first.where.step) == ("config", 0)
    assert "the file cfg.json, read before the first step" in verdict.first.why
    assert set(entries(verdict)) == {"files.cfg.json"}
    assert "clip" not in str(verdict.to_json())


def test_an_unedited_one_is_none(runs) -> None:
    verdict = everybit.diff(runs["plain"], runs["again"])
    assert verdict.first is None
    assert verdict.stats["preceding_differences"] == 0


def test_changed_lines_of_code_are_told_where_both_files_are_at_hand(runs) -> None:
    verdict = everybit.diff(runs["plain"], runs["line"])
    assert verdict.first.kind == "config"
    told = entries(verdict)["code.script"]
    assert [each.rpartition("/")[0].rpartition("/")[2] for each in told["files"]] == [
        "plain",
        "line",
    ]
    assert told["lines"][1:] == [
        "-optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "+optimizer = torch.optim.SGD(model.parameters(), lr=0.2)",
    ]
    text = CliRunner().invoke(command, ["diff", str(runs["plain"]), str(runs["line"])]).output
    assert "  +optimizer = torch.optim.SGD(model.parameters(), lr=0.2)" in text


def test_lines_of_a_file_that_was_changed_since_are_not_told(runs) -> None:
    script = runs["place"] / "line" / "train.py"
    before = script.read_text()
    script.write_text(before + "# another thought\n")
    try:
        told = entries(everybit.diff(runs["plain"], runs["line"]))["code.script"]
    finally:
        script.write_text(before)
    assert "lines" not in told
    assert told["lines_absent"] == "the file as it ran is not at hand of B"


def test_a_training_against_an_evaluation_is_told(runs) -> None:
    verdict = everybit.diff(runs["plain"], runs["evaluation"])
    assert verdict.first.kind == "config"
    assert verdict.first.why.startswith("run A trains and run B evaluates")
    assert everybit.diff(runs["evaluation"], runs["evaluation"]).first is None


def test_runs_are_no_checkpoints(runs, tmp_path) -> None:
    evaluation = tmp_path / "eval.py"
    evaluation.write_text("def evaluate(checkpoint):\n    return 1.0\n")
    with pytest.raises(UsageError, match="is a run, and --cross evaluates checkpoints") as raised:
        everybit.cross(str(evaluation), runs["plain"], runs["again"])
    assert len(raised.value.line().splitlines()) == 1
    model = tmp_path / "folder-model"
    model.mkdir()
    assert everybit.cross(str(evaluation), model, model).exit_code() != 2


def made(path: Path, version: str, word: int) -> Path:
    """Write a run of three steps under a version of torch, on a machine without a GPU."""
    environment = {
        "torch": {"version": version},
        "host": {"system": "Linux"},
        "gpu": {"absent": "no driver"},
        "cuda": {"absent": "built without CUDA"},
    }
    writer = RunWriter.open(
        path, rank=0, world_size=1, environment=environment, config={"every": 1}, command=["t.py"]
    )
    for step in range(3):
        words = tuple(range(step, step + 4))
        if step == 2:
            words = tuple(each + word for each in words)
        table = TensorTable(link=Link.GRAD, names=tuple("wxyz"), digests=words)
        writer.step(StepRecord(step=step, time_s=1.0, duration_s=1.0, guard_s=0.0, tables=(table,)))
    writer.end(EndReason.CLEAN)
    writer.close()
    return path


def test_a_known_issue_of_one_side_is_told_and_explains(tmp_path) -> None:
    # Torch 2.5 hides NaN in attention on the CPU; both are under no other issue alone.
    good, bad = made(tmp_path / "a", "2.4.1", 0), made(tmp_path / "b", "2.5.0", 7)
    verdict = everybit.diff(good, bad)
    issues = [finding for finding in verdict.findings if finding.rule == "ENV903"]
    assert [each.evidence["side"] for each in issues] == ["B"]
    assert issues[0].evidence["issue"] == "sdpa-cpu-hides-nan"
    assert issues[0].severity == "warning"
    assert verdict.findings[0].rule == "DIF181"
    told = entries(verdict)["torch.version"]
    assert (told["issue"], told["before"], told["after"]) == (
        "sdpa-cpu-hides-nan",
        "2.4.1",
        "2.5.0",
    )
    both = everybit.diff(made(tmp_path / "c", "2.5.0", 0), bad)
    assert "ENV903" not in {finding.rule for finding in both.findings}


def test_a_known_issue_of_runs_that_agree_is_a_note(tmp_path) -> None:
    verdict = everybit.diff(made(tmp_path / "a", "2.4.1", 0), made(tmp_path / "b", "2.5.0", 0))
    assert verdict.first is None
    assert [(each.rule, each.severity) for each in verdict.findings] == [("ENV903", "note")]


def test_few_lines_of_many_are_told_and_none_too_long(tmp_path) -> None:
    import hashlib

    digests, sides = [], []
    for name, line in (("A", "a"), ("B", "b" * 900)):
        folder = tmp_path / name
        folder.mkdir()
        data = "\n".join([line] * 40).encode()
        (folder / "t.py").write_bytes(data)
        digests.append(hashlib.sha256(data).hexdigest()[:16])
        environment = {"process": {"folder": str(folder)}}
        sides.append(
            RunSide(name=name, ranks={}, environment=environment, command=("python", "t.py"))
        )
    item = {"entry": "code.script", "before": digests[0], "after": digests[1]}
    (told,) = with_lines([item, *()], *sides)
    assert len(told["lines"]) == MAX_LINES + 1
    assert told["lines"][-1] == f"and {81 - MAX_LINES} more lines"
    assert max(map(len, told["lines"])) <= MAX_COLUMNS
