"""Scenes of incidents: what they hold, how large they get, and that they never hurt the job."""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.guard.watched import bits_of, build, flip, loss_of, places_of, train_step
from torch import nn

import everybit
from everybit.api.report import verdict_of_run
from everybit.guard import scene as scene_module
from everybit.ledger import IncidentStore
from everybit.probe.memory import TensorMemory

if TYPE_CHECKING:
    from pathlib import Path


def run_with_flip(
    path: Path, *, at: int = 2, place: str = "3.weight", steps: int = 4, **settings: Any
) -> tuple[everybit.Guard, Any, bytes]:
    """Train with a flip before step `at`; returns the guard, the tensor, and its right bytes."""
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=path, **settings) as guard:
        for step in range(steps):
            if step == at:
                target = next(p for p in places_of(model, optimizer) if p.name == place)
                right = TensorMemory.of(target.tensor).copy()
                flip(target.tensor, 5, 3)
            train_step(model, optimizer)
    return guard, target, right


def only(guard: everybit.Guard) -> everybit.Incident:
    (entry,) = everybit.open_run(guard.path).incidents
    return everybit.load_incident(entry.path)


@pytest.mark.parametrize("policy", ["warn", "heal", "record"])
@pytest.mark.parametrize(
    ("place", "label"),
    [
        ("3.weight", "3.weight"),
        ("1.running_mean", "1.running_mean"),
        ("3.weight:exp_avg", "AdamW::exp_avg::3.weight"),
    ],
)
def test_a_scene_holds_the_damage_as_found_and_the_right_bytes(
    tmp_path: Path, policy: str, place: str, label: str
) -> None:
    guard, target, right = run_with_flip(tmp_path / "run", place=place, on_finding=policy)
    incident = only(guard)
    assert incident.path.name == f"2-{target.rule}-r0"
    assert (incident.step, incident.rank, incident.log) == (2, 0, "rank-00000.attempt-000.log")
    assert [f.id for f in incident.findings] == [f.id for f in guard.findings]
    assert list(incident.tensors) == [label]
    saved = incident.tensors[label]
    assert saved.whole
    assert saved.right.tobytes() == right
    (element,) = np.flatnonzero(saved.array() != saved.array("right"))
    assert element == 5
    assert incident.torch(label, "right").shape == target.tensor.shape
    losses = [x for r in everybit.open_run(guard.path).log().steps() for x in r.losses]
    assert incident.losses == ((0, losses[0]), (1, losses[1]))
    (told,) = [o for o in everybit.open_run(guard.path).log().observations if o.kind == "incident"]
    assert guard.path / told.data["folder"] == incident.path
    assert told.data["findings"] == [guard.findings[0].id]
    (judged,) = verdict_of_run(everybit.open_run(guard.path)).findings
    assert judged.evidence["scene"] == told.data["folder"]
    assert not incident.batch


def test_the_random_generators_are_those_of_that_moment(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run"):
        train_step(model, optimizer)
        flip(model[0].weight, 1, 3)
        np.random.seed(5)
        drawn = None
        loss = loss_of_with(model, states := [])
        loss.backward()
        optimizer.step()
        drawn = states[0]
    (entry,) = everybit.open_run(tmp_path / "run").incidents
    done = everybit.load_incident(entry.path).restore_rng()
    assert {"python", "numpy", "torch"} <= set(done)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == drawn


def loss_of_with(model: nn.Module, states: list[Any]) -> torch.Tensor:
    """A loss; tells what the generators would give when the model is called."""
    batch = torch.randn(4, 16)
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    states.append((random.random(), np.random.rand(), torch.rand(1).item()))
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])
    return model(batch).square().mean()


def test_the_batch_is_kept_where_asked(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, *, more: dict[str, Any]) -> torch.Tensor:
            return self.layer(x) * more["scale"]

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", keep_batch=True) as guard:
        for step in range(3):
            batch = torch.full((2, 4), float(step))
            if step == 1:
                flip(model.layer.weight, 1, 3)
            model(batch, more={"scale": torch.tensor(2.0), "name": "x"}).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    incident = only(guard)
    assert incident.torch("0").tolist() == [[1.0] * 4] * 2
    assert incident.torch("more.scale").item() == 2.0
    assert incident.notes == ("batch more.name: a str is no tensor",)


def test_a_large_tensor_is_cut_to_the_neighbourhood(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(scene_module, "MAX_TENSOR_BYTES", 100_000)
    monkeypatch.setattr(scene_module, "MARGIN", 100)
    guard, target, right = run_with_flip(tmp_path / "run")
    saved = only(guard).tensors["3.weight"]
    assert not saved.whole
    assert saved.note == "106 of 140,800 elements, around the damage"
    assert (saved.first, saved.count) == (0, 106)
    assert saved.right.tobytes() == right[: 4 * 106]
    assert np.flatnonzero(saved.found != saved.right).tolist() == [5 * 4]
    assert target.tensor.numel() == 140_800


def test_a_tensor_in_another_order_is_kept_row_major(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.Flatten(), nn.Linear(16 * 4, 2))
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="heal") as guard:
        for step in range(2):
            if step:
                before = model[0].weight.detach().clone()
                flip(model[0].weight, 7, 20)
            model(torch.ones(1, 8, 4, 4)).sum().backward()
            optimizer.step()
    assert not before.is_contiguous()
    incident = only(guard)
    assert torch.equal(incident.torch("0.weight", "right"), before)
    changed = torch.nonzero(incident.torch("0.weight").ravel() != before.reshape(-1))
    assert changed.ravel().tolist() == [7]


@pytest.mark.parametrize("settings", [{"incident_mb": 0}, {"max_incidents": 0}])
def test_none_are_kept_where_none_are_wanted(tmp_path: Path, settings: Any, caplog: Any) -> None:
    guard, _, _ = run_with_flip(tmp_path / "run", on_finding="record", **settings)
    assert len(guard.findings) == 1
    assert not (guard.path / "incidents").exists()
    assert not caplog.messages


def test_the_number_is_bounded_and_that_is_said_once(tmp_path: Path, caplog: Any) -> None:
    model, optimizer = build()
    settings = {"max_incidents": 2, "on_finding": "record"}
    with everybit.Guard(model, optimizer, run=tmp_path / "run", **settings) as guard:
        for _ in range(6):
            train_step(model, optimizer)
            flip(model[0].weight, 1, 3)
    assert len(guard.findings) == 6
    assert len(everybit.open_run(guard.path).incidents) == 2
    assert caplog.messages == [
        "everybit: no room is left for scenes of incidents; findings are recorded; the job goes on"
    ]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_full_disk_is_one_warning_and_the_job_goes_on(
    tmp_path: Path, caplog: Any, monkeypatch: Any, code: int
) -> None:
    def full(*_: Any) -> None:
        raise OSError(code, "No space left on device")

    monkeypatch.setattr(IncidentStore, "_write", full)
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="heal") as guard:
        for _ in range(4):
            train_step(model, optimizer)
            flip(model[0].weight, 1, 3)
    bits = bits_of(model, optimizer)
    model, optimizer = build()
    for _ in range(4):
        train_step(model, optimizer)
    assert bits == bits_of(model, optimizer)
    assert len(guard.findings) == 4
    told = [line for line in caplog.messages if "scenes" in line]
    assert len(told) == 1
    assert "no space left on device" in told[0]
    assert guard.coverage is not None
    assert not [item for item in guard.coverage.skipped if "fault" in item.why]
    assert list((guard.path / "incidents").iterdir()) == []


def test_a_clean_run_keeps_nothing_and_draws_nothing(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", keep_batch=True) as guard:
        for _ in range(3):
            train_step(model, optimizer)
    drawn = random.random(), np.random.rand(), torch.rand(1).item()
    bits = bits_of(model, optimizer)
    model, optimizer = build()
    for _ in range(3):
        train_step(model, optimizer)
    assert bits == bits_of(model, optimizer)
    assert drawn == (random.random(), np.random.rand(), torch.rand(1).item())
    assert everybit.open_run(guard.path).incidents == ()
    assert loss_of(model).isfinite()


def test_what_all_tensors_take_is_bounded(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(scene_module, "MAX_SCENE_BYTES", 1_200_000)
    monkeypatch.setattr(scene_module, "MARGIN", 10)
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record") as guard:
        for step in range(2):
            if step:
                for place in places_of(model, optimizer):
                    if place.name in ("3.weight", "3.weight:exp_avg", "3.weight:exp_avg_sq"):
                        flip(place.tensor, 7, 3)
            train_step(model, optimizer)
    tensors = {
        name: saved
        for entry in everybit.open_run(guard.path).incidents
        for name, saved in everybit.load_incident(entry.path).tensors.items()
    }
    # 0.56 MB each, as found and right: one of a moment is whole, of the others the neighbourhood.
    assert {saved.count for saved in tensors.values()} == {140_800, 18}
    for saved in tensors.values():
        assert np.flatnonzero(saved.array() != saved.array("right")).tolist() == [7]


def test_an_error_of_a_scene_ends_no_check(tmp_path: Path, caplog: Any, monkeypatch: Any) -> None:
    def broken() -> None:
        raise RuntimeError("no such\ngenerator")

    monkeypatch.setattr(scene_module, "rng_states", broken)
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record") as guard:
        for _ in range(3):
            train_step(model, optimizer)
            flip(model[0].weight, 1, 3)
    assert len(guard.findings) == 3
    assert caplog.messages == [
        "everybit: no scenes of incidents are kept any more: no such generator; the job goes on"
    ]
    assert everybit.open_run(guard.path).incidents == ()
