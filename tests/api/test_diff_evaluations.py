"""One checkpoint evaluated on two simulated servers: what differs, and what is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import everybit

if TYPE_CHECKING:
    from pathlib import Path


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(12, 64), torch.nn.ReLU())
        self.norm = torch.nn.BatchNorm1d(64)
        self.drop = torch.nn.Dropout(0.3)
        self.head = torch.nn.Linear(64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.drop(self.norm(self.body(x))))
        return out


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("checkpoint") / "model.pt"
    torch.save(Model().state_dict(), path)
    return path


def _flip(model: Model) -> None:
    model.head.weight.detach().numpy().view("int32")[2, 7] ^= 1 << 29


def _evaluate(run: Path, checkpoint: Path, fault: str = "") -> None:
    torch.manual_seed(1)
    model = Model()
    model.load_state_dict(torch.load(checkpoint, weights_only=True))
    if fault != "train":
        model.eval()
    if fault == "resident":
        _flip(model)
    samples = torch.randn(96, 12)
    if fault == "transform":
        samples = (samples - 0.1) / 0.9
    with everybit.Guard(model, run=run, on_finding="record", scrub_percent=100), torch.no_grad():
        for start in range(0, 96, 16):
            if fault == "flip" and start == 32:
                _flip(model)
            model(samples[start : start + 16])


@pytest.fixture(scope="module")
def here(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("here") / "run"
    _evaluate(run, checkpoint)
    return run


def _compare(here: Path, there: Path) -> Any:
    verdict = everybit.diff(here, there)
    assert verdict.comparison is not None
    return verdict, verdict.comparison["evaluation"]


def test_the_same_server_twice_gives_the_same_answers(
    here: Path, checkpoint: Path, tmp_path: Path
) -> None:
    _evaluate(tmp_path / "run", checkpoint)
    verdict, told = _compare(here, tmp_path / "run")
    assert verdict.first is None
    assert (told["samples"], told["samples_differing"]) == (96, 0)
    assert (told["answers"], told["answers_changed"]) == (96, 0)
    assert (told["calls"], told["blame"]) == (6, "none")


def test_a_flip_in_resident_weights_is_one_tensor_of_many(
    here: Path, checkpoint: Path, tmp_path: Path
) -> None:
    _evaluate(tmp_path / "run", checkpoint, "resident")
    _, told = _compare(here, tmp_path / "run")
    assert (told["blame"], told["weights_differing"]) == ("weights", ["head.weight"])
    assert "no other checkpoint" in told["why"]
    assert told["samples_differing"] > 0
    assert told["calls_with_other_inputs"] == 0


def test_a_flip_between_two_calls_is_damage_at_rest(
    here: Path, checkpoint: Path, tmp_path: Path
) -> None:
    _evaluate(tmp_path / "run", checkpoint, "flip")
    verdict, told = _compare(here, tmp_path / "run")
    assert verdict.first.kind == "corruption"
    assert told["blame"] == "weights"
    (damage,) = told["weights_damaged"]
    assert (damage["run"], damage["where"]["parameter"]) == ("B", "head.weight")
    assert damage["where"]["elements"] == [2 * 64 + 7]
    # The samples before it are equal.
    assert all(each["step"] >= 2 for each in told["first_samples"])


def test_a_wrong_transform_is_the_data(here: Path, checkpoint: Path, tmp_path: Path) -> None:
    _evaluate(tmp_path / "run", checkpoint, "transform")
    verdict, told = _compare(here, tmp_path / "run")
    assert verdict.first.kind == "data"
    assert (told["blame"], told["calls_with_other_inputs"]) == ("data", 6)
    assert told["num_weights_differing"] == 0
    assert 0 < told["answers_changed"] < told["answers"]
    assert {"step", "sample", "a", "b"} == set(told["changed_answers"][0])


def test_train_mode_left_on_is_the_mode(here: Path, checkpoint: Path, tmp_path: Path) -> None:
    _evaluate(tmp_path / "run", checkpoint, "train")
    _, told = _compare(here, tmp_path / "run")
    assert (told["blame"], told["modes"]) == ("mode", ["eval", "train"])
    assert told["answers_changed"] > 0


def test_one_part_left_in_train_mode_is_named(checkpoint: Path, tmp_path: Path) -> None:
    for name in "ab":
        model = Model().eval()
        model.drop.train(name == "b")
        with everybit.Guard(model, run=tmp_path / name), torch.no_grad():
            model(torch.ones(4, 12))
    _, told = _compare(tmp_path / "a", tmp_path / "b")
    assert told["modes"] == ["eval", "train in drop"]


def test_runs_that_train_have_no_such_comparison(tmp_path: Path) -> None:
    for name in "ab":
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with everybit.Guard(model, optimizer, run=tmp_path / name, on_finding="record"):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    assert everybit.diff(tmp_path / "a", tmp_path / "b").comparison is None
