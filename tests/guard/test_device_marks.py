"""The marks of accelerators, on tensors that lie on the CPU; and how often anything waits."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.watched import bits_of, build, check_named, flip, loss_of, places_of, train_step

import everybit
from everybit.guard import groups as groups_module
from everybit.guard.device_marks import DeviceMarks

if TYPE_CHECKING:
    from pathlib import Path

#: Ways for a value to come to the host from an accelerator; each waits for it.
WAITS = ["cpu", "item", "tolist", "__bool__", "__int__", "__float__", "__index__"]


@pytest.fixture
def _as_if_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_on_host", lambda tensor: False)


as_if_on_a_device = pytest.mark.usefixtures("_as_if_on_a_device")


@as_if_on_a_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_flips_are_caught_named_and_healed(dtype: torch.dtype, tmp_path: Path, caplog: Any) -> None:
    caplog.set_level("ERROR", "everybit")
    model, optimizer = build(dtype)
    for _ in range(14):
        train_step(model, optimizer)
    clean = bits_of(model, optimizer)
    model, optimizer = build(dtype)
    rng = random.Random(4)
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal") as guard:
        train_step(model, optimizer)
        train_step(model, optimizer)
        places = list(places_of(model, optimizer))
        assert all(
            isinstance(marks, DeviceMarks) or not len(marks)
            for group in guard._watch.state._groups.values()
            for marks in group
        )
        count = 0
        for step in range(2, 14):
            planted = {}
            for place in rng.sample(places, 5):
                element, bit = rng.randrange(place.tensor.numel()), rng.randrange(place.width)
                flip(place.tensor, element, bit)
                planted[place.parameter, place.state] = (place, element, bit)
            train_step(model, optimizer)
            found = {(f.where.parameter, f.where.tensor): f for f in guard.findings[count:]}
            count = len(guard.findings)
            assert found.keys() == planted.keys()
            for key, (place, element, bit) in planted.items():
                check_named(found[key], place, element, (bit,))
                assert found[key].where.step == step
                assert found[key].evidence["healed"]
                assert not found[key].evidence["tainted"]
    assert bits_of(model, optimizer) == clean


@as_if_on_a_device
@pytest.mark.parametrize("shadow", [False, True])
def test_wide_damage(shadow: bool, tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal", shadow=shadow) as guard:
        train_step(model, optimizer)
        right = model[3].weight.detach().clone()
        model[3].weight.detach().numpy()[100:103, 5:40] = 7
        train_step_without_update(model)
        (finding,) = guard.findings
        truth = {r * 64 + c for r in range(100, 103) for c in range(5, 40)}
        named = {i for a, b in finding.where.element_ranges for i in range(a, b)}
        assert finding.evidence["healed"] is shadow
        assert torch.equal(model[3].weight, right) is shadow
        assert named == truth if shadow else named >= truth


def train_step_without_update(model: Any) -> None:
    with torch.no_grad():
        loss_of(model)


@as_if_on_a_device
def test_a_clean_run_has_no_finding_and_the_same_bits(tmp_path: Path) -> None:
    model, optimizer = build(fused=True)
    for _ in range(6):
        train_step(model, optimizer)
        model[0].weight.data.mul_(0.9)
    clean = bits_of(model, optimizer)
    for policy in ("heal", "warn"):
        model, optimizer = build(fused=True)
        with everybit.Guard(
            model, optimizer, run=tmp_path / policy, on_finding=policy, shadow=policy == "heal"
        ) as guard:
            for _ in range(6):
                train_step(model, optimizer)
                model[0].weight.data.mul_(0.9)
        assert guard.verdict.ok
        assert bits_of(model, optimizer) == clean


@as_if_on_a_device
@pytest.mark.parametrize("policy", ["record", "warn"])
def test_what_is_judged_late_is_told_once_and_tainted(policy: str, tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding=policy) as guard:
        train_step(model, optimizer)
        train_step(model, optimizer)
        flip(model[3].weight, 70, 20)
        flip(model[1].running_var, 7, 20)
        flip(optimizer.state[model[0].bias]["exp_avg"], 9, 20)
        loss = loss_of(model)
        assert guard.findings == ()  # the answers still lie on the device
        loss.backward()
        optimizer.step()
        assert len(guard.findings) == 3
        train_step(model, optimizer)
    by_name = {(f.where.parameter, f.where.tensor): f for f in guard.findings}
    assert len(by_name) == len(guard.findings) == 3
    assert {f.where.step for f in guard.findings} == {2}
    weight = by_name["3.weight", None]
    assert weight.evidence["tainted"]
    assert weight.where.elements == (70,)
    assert by_name["1.running_var", None].evidence["tainted"]
    assert not by_name["0.bias", "exp_avg"].evidence["tainted"]
    steps = everybit.open_run(tmp_path).log().steps()
    assert [s.tainted for s in steps] == [False, False, True, False]


@as_if_on_a_device
def test_an_evaluation_with_no_update_is_judged_at_the_next_call_or_the_end(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="record") as guard:
        train_step(model, optimizer)
        model.eval()
        for _ in range(3):
            train_step_without_update(model)
        flip(model[3].weight, 70, 20)
        train_step_without_update(model)
        train_step_without_update(model)
        assert len(guard.findings) == 1
        flip(model[3].weight, 70, 20)
        train_step_without_update(model)
    assert len(guard.findings) == 2


# --- waiting


def waits_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count every way for a value to come to the host from now on."""
    seen: list[str] = []
    for name in WAITS:
        original = getattr(torch.Tensor, name)

        def counted(tensor: Any, *args: Any, _name: str = name, _do: Any = original) -> Any:
            seen.append(_name)
            return _do(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, counted)
    return seen


@as_if_on_a_device
@pytest.mark.parametrize(
    ("policy", "at_forward", "in_all"), [("warn", 0, 2), ("record", 0, 2), ("heal", 1, 4)]
)
def test_waits_for_a_device(
    policy: str, at_forward: int, in_all: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unchecked steps wait for nothing, checked ones as often as docs/guard.md says."""
    model, optimizer = build(foreach=True)
    # Numerics reads the numbers of host tensors where they lie, which is no wait either.
    settings = {"on_finding": policy, "every": 3, "numerics": False}
    with everybit.Guard(model, optimizer, run=tmp_path, **settings) as guard:
        for _ in range(3):
            train_step(model, optimizer)
        # The loop's tensors do lie on the CPU: what the record reads of them is no wait.
        monkeypatch.setattr(guard._checks.record, "_add_values", lambda *_: None)
        monkeypatch.setattr(guard._checks.record, "_inputs", lambda *_: None)
        waits = waits_of(monkeypatch)
        bare, adam = build(foreach=True)
        per_step = []
        for _ in range(6):
            waits.clear()
            bare_loss = loss_of(bare)
            of_forward = len(waits)
            bare_loss.backward()
            adam.step()
            of_step = len(waits)
            waits.clear()
            loss = loss_of(model)
            at = len(waits) - of_forward
            loss.backward()
            optimizer.step()
            per_step.append((at, len(waits) - of_step))
            optimizer.zero_grad()
    assert per_step[1:3] == per_step[4:6] == [(0, 0), (0, 0)]
    assert per_step[0] == per_step[3] == (at_forward, in_all), (per_step, waits)


def test_no_scalar_is_read_on_unchecked_steps(tmp_path: Path) -> None:
    """On the CPU: `aten::_local_scalar_dense`, as the profiler counts it."""

    def count(steps: int, model: Any, optimizer: Any) -> int:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(steps):
                train_step(model, optimizer)
        events = profile.events()
        assert any(event.name == "aten::addmm" for event in events)
        return sum(event.name == "aten::_local_scalar_dense" for event in events)

    model, optimizer = build()
    train_step(model, optimizer)
    bare = count(3, model, optimizer)
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path / "a", every=4):
        train_step(model, optimizer)
        assert count(3, model, optimizer) == bare
    with everybit.Guard(model, optimizer, run=tmp_path / "b", numerics=False) as guard:
        train_step(model, optimizer)
        assert count(3, model, optimizer) == bare  # nor, but for numerics, on checked ones
        assert guard.verdict.findings == ()
