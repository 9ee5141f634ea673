"""Both checkpoints evaluated on both sides: weights, file, data, code or environment to blame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner

import everybit
from everybit.api.cross import cross
from everybit.api.cross_blame import blame
from everybit.cli import everybit as command
from everybit.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

EVALUATION = """
import torch


def evaluate(checkpoint):
    print("not part of the verdict")
    model = torch.nn.Linear(6, 3)
    model.load_state_dict(torch.load(checkpoint, weights_only=True))
    model.eval()
    torch.manual_seed(0)
    x, y = torch.randn(64, 6), torch.randint(3, (64,))
    with torch.no_grad():
        right = (model(x).argmax(1) == y).sum()
    return {"accuracy": float(right) / 64}
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    torch.manual_seed(0)
    made = {"eval": tmp_path / "eval.py"}
    made["eval"].write_text(EVALUATION)
    for name in "ab":
        made[name] = tmp_path / f"{name}.pt"
        torch.save(torch.nn.Linear(6, 3).state_dict(), made[name])
    return made


def _cross(files: dict[str, Path], a: str = "a", b: str = "b", **facts: Any) -> Any:
    return cross(str(files["eval"]), files[a], files[b], **facts)


def test_other_weights_are_to_blame_on_one_side_alone(files: dict[str, Path]) -> None:
    verdict = _cross(files)
    told = verdict.comparison["cross"]
    assert told["blame"] == ["weights"]
    assert told["table"][0][0] != told["table"][1][0]
    assert told["table"][0][1] is None
    assert verdict.exit_code() == 1


def test_equal_checkpoints_and_sides_are_clean(files: dict[str, Path], tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    assert _cross(files, "a", "a", export=there).ok
    verdict = _cross(files, "a", "a", against=there)
    assert verdict.ok
    assert verdict.comparison["cross"]["table"][0][0] == verdict.comparison["cross"]["table"][1][1]


def test_other_inputs_on_the_other_side_are_the_data(
    files: dict[str, Path], tmp_path: Path
) -> None:
    there = tmp_path / "there.json"
    text = files["eval"].read_text()
    files["eval"].write_text(text.replace("x, y =", "x, y = 0, 0\n    x, y ="))
    files["eval"].write_text(text.replace("with torch", "x = (x - 1) / 0.2\n    with torch"))
    _cross(files, export=there)
    files["eval"].write_text(text)
    told = _cross(files, against=there).comparison["cross"]
    assert told["blame"][0] == "data"
    assert "other inputs" in told["why"]


def test_another_file_under_the_name_is_the_file(files: dict[str, Path], tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    _cross(files, "a", "b", export=there)
    state = torch.load(files["b"], weights_only=True)
    state["weight"].view(torch.int32)[1, 2] ^= 1 << 30
    torch.save(state, files["b"])
    told = _cross(files, "a", "b", against=there).comparison["cross"]
    assert told["blame"][0] == "file"
    assert "the file of B" in told["why"]


def _side(a: float, b: float, **facts: Any) -> dict[str, Any]:
    cells = {
        name: {
            "scores": {"score": score},
            "weights": name,
            "inputs": "i",
            "outputs": str(score),
            "answers": "",
            "mode": "eval",
            **facts.get("cell", {}),
        }
        for name, score in (("A", a), ("B", b))
    }
    return {
        "side": "s",
        "files": {"A": "a", "B": "b"},
        "code": "c",
        "environment": {"torch": {"version": facts.get("torch", "2.13")}},
        "cells": cells,
    }


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (_side(92, 92), _side(92, 92), []),
        (_side(92, 87), _side(92, 87), ["weights"]),
        (_side(92, 92), _side(87, 87, torch="2.6"), ["environment"]),
        (_side(92, 92), _side(87, 87, cell={"inputs": "j"}), ["data"]),
        (_side(92, 92), _side(87, 87, cell={"mode": "train"}), ["evaluation"]),
        (_side(92, 92), _side(87, 87, cell={"weights": "x"}), ["weights"]),
        (_side(92, 90), _side(87, 85, cell={"inputs": "j"}), ["data", "weights"]),
        (_side(92, 92), {**_side(87, 87), "code": "d"}, ["evaluation"]),
    ],
)
def test_the_table_names_who_is_to_blame(here: Any, there: Any, expected: list[str]) -> None:
    told = blame(here, there)
    assert told["blame"] == expected
    assert told["why"]
    assert " and B gives " not in told["why"]


def test_a_recorded_run_fills_the_cell_of_its_weights(
    files: dict[str, Path], tmp_path: Path
) -> None:
    model = torch.nn.Linear(6, 3)
    with everybit.Guard(run=tmp_path / "run", on_finding="record"):
        model.load_state_dict(torch.load(files["b"], weights_only=True))
        model.eval()
        torch.manual_seed(0)
        with torch.no_grad():
            model(torch.randn(64, 6))
    verdict = _cross(files, against=tmp_path / "run")
    told = verdict.comparison["cross"]
    assert told["table"][1][0] == told["table"][1][1]
    assert told["blame"] == ["weights"]
    assert told["missing"] == [("A there", "it is not on record there")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def other(c): return 1", "no function 'evaluate'"),
        ("def evaluate(c): return 'good'", "returned a str"),
        ("def evaluate(c): raise ValueError('no')", "fails (ValueError: no)"),
        ("import nowhere_to_be_found", "fails when it is imported"),
    ],
)
def test_an_evaluation_that_cannot_be_used_is_one_line(
    files: dict[str, Path], text: str, said: str
) -> None:
    files["eval"].write_text(text)
    with pytest.raises(UsageError) as error:
        _cross(files)
    assert said in error.value.line()


def test_the_command_prints_the_table_and_exports(files: dict[str, Path], tmp_path: Path) -> None:
    asked = ["diff", str(files["a"]), str(files["b"]), "--cross", str(files["eval"])]
    out = tmp_path / "here.json"
    result = CliRunner().invoke(command, [*asked, "--export", str(out)], standalone_mode=False)
    assert "here" in result.stdout
    assert "accuracy" in result.stdout
    assert json.loads(out.read_text())["schema"] == "everybit.cross/1"
    assert out.stat().st_mode & 0o777 == 0o600
