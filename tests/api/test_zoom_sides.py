"""Which of two runs can be computed again, and what follows where one alone can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everybit.api import zoom as zoom_module
from everybit.api.zoom import zoom
from everybit.api.zoom_side import CannotRunError, Program, find_program_of
from everybit.api.zoom_take import Take
from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.core.rule import rule
from everybit.core.verdict import Coverage
from everybit.diff.outcome import Outcome
from everybit.diff.side import RankSide, RunSide

HERE = {"torch": {"version": "2.13.0"}, "threads": {"intra_op": 1}, "captured_at": 4e9}
THERE = {**HERE, "torch": {"version": "2.6.0"}, "threads": {"intra_op": 2}}


def _record(word: int) -> StepRecord:
    table = TensorTable(link=Link.GRAD, names=("w",), digests=(word,))
    return StepRecord(step=3, time_s=0, duration_s=0, guard_s=0, losses=(1.0,), tables=(table,))


def _outcome() -> Outcome:
    where = Location(step=3, rank=0, link=Link.GRAD)
    finding = rule("DIF181").finding("they part", where=where)
    first = Divergence(where=where, kind=DivergenceKind.UNKNOWN, why="as recorded")
    return Outcome(findings=(finding,), first=first, coverage=Coverage(), stats={})


def _side(name: str, environment: Any = HERE) -> RunSide:
    return RunSide(name=name, path=f"runs/{name}", ranks={}, environment=environment)


class _Machine:
    """Takes the place of programs that run again: what each side gives, under which settings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gives: Any, *, cannot: str = "") -> None:
        self.asked: list[dict[str, Any]] = []
        self._gives, self._cannot = gives, cannot
        monkeypatch.setattr(zoom_module, "find_program_of", self._find)
        monkeypatch.setattr(zoom_module, "take", self._take)

    def _find(self, side: RunSide) -> Program:
        if side.name in self._cannot:
            raise CannotRunError("its script is not here")
        return Program(
            target=side.name, args=(), module=False, folder=Path(), outer=True,
            run_name="run", settings={},
        )  # fmt: skip

    def _take(self, program: Program, step: int, folder: Path, **wanted: Any) -> Take:
        self.asked.append(wanted)
        threads = wanted.get("settings", {}).get("threads", 1)
        word = self._gives(program.target, threads)
        return Take(
            name=folder.name, folder=folder, record=_record(word), settings={"threads": threads}
        )


def _zoom(there: Any = HERE) -> Outcome:
    records = {"A": _record(1), "B": _record(2)}
    return zoom(_outcome(), _side("A"), _side("B", there), lambda side, _r, _s: records[side])


def test_a_state_under_the_other_thread_count_that_gives_its_bits_is_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = _Machine(monkeypatch, lambda _, threads: threads, cannot="B")
    told = _zoom(THERE)
    assert told.first is not None
    assert told.first.kind is DivergenceKind.NOISE
    assert machine.asked[-1]["settings"] == {"threads": 2}
    assert any("its script is not here" in each.why for each in told.coverage.skipped)


def test_bits_that_no_setting_gives_leave_the_kind_open(monkeypatch: pytest.MonkeyPatch) -> None:
    _Machine(monkeypatch, lambda _, threads: 1 if threads == 1 else 7, cannot="B")
    told = _zoom(THERE)
    assert told.first is not None
    assert told.first.kind is DivergenceKind.UNKNOWN
    assert any("does not give B's bits either" in each.why for each in told.coverage.skipped)


def test_neither_side_here_is_told_and_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    _Machine(monkeypatch, lambda *_: 1, cannot="AB")
    told = _zoom()
    assert told.first == _outcome().first
    assert [each.promised for each in told.coverage.skipped] == [True, True]


@pytest.mark.parametrize(("side", "word"), [("B", 1), ("A", 2)])
def test_a_side_that_gives_the_others_bits_now_was_struck(
    monkeypatch: pytest.MonkeyPatch, side: str, word: int
) -> None:
    _Machine(monkeypatch, lambda *_: word)
    told = _zoom()
    assert told.first is not None
    assert told.first.kind is DivergenceKind.CORRUPTION
    assert told.findings[0].evidence["zoom"]["side"] == side


def test_what_does_not_repeat_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    _Machine(monkeypatch, lambda *_: 9)
    told = _zoom()
    assert told.first is not None
    assert told.first.kind is DivergenceKind.UNKNOWN
    assert told.findings[0].evidence["zoom"]["how"] == "unrepeated"


def test_a_program_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print()")
    environment = {**HERE, "process": {"folder": str(tmp_path)}}

    def why(**facts: Any) -> str:
        values = {"command": ("python", "train.py"), "environment": environment, "ranks": {}}
        side = RunSide(name="A", path="runs/a", **{**values, **facts})
        with pytest.raises(CannotRunError) as error:
            find_program_of(side, HERE)
        return str(error.value)

    assert "2 ranks" in why(ranks={0: RankSide(rank=0), 1: RankSide(rank=1)})
    assert "does not tell the command" in why(command=())
    assert "another machine or torch: torch.version was 2.6.0" in why(environment=THERE)
    assert "hidden in the record" in why(command=("python", "train.py", "--key=<hidden>"))
    assert "script is not here" in why(command=("python", "gone.py"))
    assert "script is not here" in why(command=("python", "-c"))
    changed = {**environment, "code": {"script": "0" * 16}}
    assert "changed since it ran: script" in why(environment=changed)
    gone = {**environment, "process": {"folder": str(tmp_path / "gone")}}
    assert "is gone" in why(environment=gone)


def test_a_program_is_run_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    environment = {
        **HERE,
        "process": {"folder": str(tmp_path)},
        "variables": {"OMP_NUM_THREADS": "2", "recorded": {"RANK": "0"}},
    }
    side = RunSide(
        name="A",
        path="runs/a",
        ranks={},
        environment=environment,
        config={"run": "runs/a", "every": 5, "webhook": "https://host"},
        command=("python", "train.py", "--lr", "1"),
    )
    program = find_program_of(side, HERE)
    assert (program.target, program.args, program.outer) == ("train.py", ("--lr", "1"), True)
    assert program.settings == {"every": 5}
    assert program.variables == {"OMP_NUM_THREADS": "2"}
