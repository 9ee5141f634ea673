"""Where a run kept a capsule of the step, its program need not run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from everybit.api import replay as replay_module
from everybit.api.zoom_capsule import try_capsules
from everybit.core.divergence import DivergenceKind
from everybit.core.errors import PathError
from everybit.core.reanchored import How, judge_reanchored
from everybit.core.verdict import Verdict
from everybit.diff.side import RunSide

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sides(tmp_path: Path) -> dict[str, RunSide]:
    (tmp_path / "b/capsules").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    return {n: RunSide(name=n, path=str(tmp_path / n.lower()), ranks={}) for n in "AB"}


def _replaying(monkeypatch: pytest.MonkeyPatch, result: str, *, rank: int = 0) -> None:
    attempt = {"result": result, "rank": rank, "module": "fc", "meaning": "the first was wrong"}

    def replayed(*_: Any, **__: Any) -> Verdict:
        return Verdict(command="replay", target=(), stats={"attempts": [attempt]})

    monkeypatch.setattr(replay_module, "replay", replayed)


def test_a_capsule_whose_repeats_are_right_names_the_run(
    sides: dict[str, RunSide], monkeypatch: pytest.MonkeyPatch
) -> None:
    _replaying(monkeypatch, "right")
    found = try_capsules(sides, 3, 0)
    assert found is not None
    assert (found.how, found.side, found.module) == (How.TRANSIENT, "B", "fc")
    kind, _, why = judge_reanchored(found)
    assert kind is DivergenceKind.CORRUPTION
    assert "capsule" in why


def test_a_capsule_of_the_rank_that_parts_is_computed_and_of_no_other(
    sides: dict[str, RunSide], monkeypatch: pytest.MonkeyPatch
) -> None:
    _replaying(monkeypatch, "right", rank=1)
    assert try_capsules(sides, 3, 0) is None
    found = try_capsules(sides, 3, 1)
    assert found is not None
    assert (found.rank, found.side) == (1, "B")


@pytest.mark.parametrize("result", ["found", "other", "varies"])
def test_a_capsule_that_says_nothing_else_leaves_it_to_the_program(
    sides: dict[str, RunSide], monkeypatch: pytest.MonkeyPatch, result: str
) -> None:
    _replaying(monkeypatch, result)
    assert try_capsules(sides, 3, 0) is None


def test_a_run_without_one_of_the_step_leaves_it_to_the_program(
    sides: dict[str, RunSide], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Verdict:
        raise PathError("holds no capsule of step 3", where="b", todo="none")

    monkeypatch.setattr(replay_module, "replay", refuse)
    assert try_capsules(sides, 3, 0) is None
