"""The closure form: what it leaves as it is, when it computes again, and when it gives up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
import torch
from bench.closure_loops import Loop, bare, build, cnn, flip, gpt, guarded
from torch import nn

import everybit
from everybit.core.errors import StoppedError, UsageError
from everybit.core.finding import Certainty
from everybit.inject import ComputedFault, ComputedKind

if TYPE_CHECKING:
    from pathlib import Path

LOOPS: dict[str, Any] = {
    "plain": (gpt, {}),
    "buffers": (cnn, {}),
    "amp": (cnn, {"amp": True, "steps": 14}),
    "accumulation": (gpt, {"accumulate": 3, "steps": 4}),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("on_finding", ["warn", "rewind"])
def test_clean_runs_are_left_as_they_are(name: str, on_finding: str, tmp_path: Path) -> None:
    make, loop = LOOPS[name]
    run = guarded(make, tmp_path / "run", loop=loop, on_finding=on_finding)
    assert not run.findings
    assert run.bits == bare(make, **loop)
    checked = {each.what: each.count for each in run.verdict.coverage.checked}
    steps = loop.get("steps", 6)
    assert checked["whole steps that repeated exactly"] == steps
    assert checked["steps recorded"] == steps
    assert run.verdict.status == "clean", run.verdict.coverage


def test_the_record_is_that_of_one_computation(tmp_path: Path) -> None:
    plain = build(gpt)
    with everybit.Guard(plain.model, plain.optimizer, run=tmp_path / "a"):
        plain.run(lambda fn, *args: fn(*args))
    fault = ComputedFault(kind=ComputedKind.ACTIVATION, module="blocks.0.up", step=2, seed=5)
    run = guarded(gpt, tmp_path / "b", faults=[fault])
    assert [finding.rule for finding in run.findings] == ["CMP701"]
    a, b = (list(everybit.open_run(tmp_path / name).log().steps()) for name in "ab")
    assert [(s.step, s.losses, s.tables) for s in a] == [(s.step, s.losses, s.tables) for s in b]
    assert not everybit.diff(tmp_path / "a", tmp_path / "b").first


def test_only_the_steps_asked_for_are_computed_twice(tmp_path: Path) -> None:
    calls: list[int] = []

    def hit(loop: Loop, at: str) -> None:
        if at == "forward":
            calls.append(loop.at)

    for on_finding in ("warn", "rewind"):
        calls.clear()
        run = guarded(gpt, tmp_path / on_finding, hit=hit, replay_every=4, on_finding=on_finding)
        assert run.verdict.ok
        assert calls == [0, 0, 1, 2, 3, 4, 4, 5]


def test_what_is_found_in_a_step_that_is_not_replayed_is_undone_too(tmp_path: Path) -> None:
    def hit(loop: Loop, at: str) -> None:
        if (loop.at, at) == (2, point) and not hits:
            hits.append(flip(loop.model.get_parameter("head.weight"), 7, 30))

    for point, evidence in (("forward", "rewound"), ("backward", "replayed")):
        hits: list[Any] = []
        run = guarded(gpt, tmp_path / point, hit=hit, replay_every=0)
        assert run.bits == bare(gpt)
        (finding,) = run.findings
        assert (finding.rule, finding.where.step) == ("MEM601", 2)
        assert finding.evidence[evidence]
        assert "computed again" in finding.message


def test_a_majority_counts_under_any_policy(tmp_path: Path, caplog: Any) -> None:
    fault = ComputedFault(kind=ComputedKind.ACTIVATION, module="head", step=3, seed=5)
    with caplog.at_level(logging.WARNING):
        run = guarded(gpt, tmp_path / "run", faults=[fault], on_finding="warn")
    assert run.bits == bare(gpt)
    assert [finding.rule for finding in run.findings] == ["CMP701"]
    assert sum("CMP701" in message for message in caplog.messages) == 1
    with pytest.raises(StoppedError, match="CMP701"):
        guarded(gpt, tmp_path / "stop", faults=[fault], on_finding="stop")


def test_the_first_step_of_a_run_needs_more_than_one_witness(tmp_path: Path) -> None:
    fault = ComputedFault(kind=ComputedKind.ACTIVATION, module="head", step=0, seed=5)
    run = guarded(gpt, tmp_path / "run", faults=[fault])
    assert run.bits == bare(gpt)
    (finding,) = run.findings
    assert finding.evidence["for"] == 3
    assert finding.certainty is Certainty.STRONG


def test_damage_that_comes_back_each_time_stops_the_run(tmp_path: Path) -> None:
    count = [0]

    def hit(loop: Loop, at: str) -> None:
        if (loop.at, at) == (2, "forward"):
            count[0] += 1
            flip(loop.model.get_parameter("head.weight"), 7, 30)

    with pytest.raises(StoppedError, match=r"step 2 was computed 4 times.*MEM601"):
        guarded(gpt, tmp_path / "run", hit=hit, max_rewinds=2)
    assert count[0] == 4
    verdict = everybit.open_run(tmp_path / "run").log()
    assert {finding.rule for finding in verdict.findings} == {"MEM601"}


def test_an_error_that_a_wrong_number_caused_is_undone(tmp_path: Path) -> None:
    def hit(loop: Loop, at: str) -> None:
        if (loop.at, at) == (3, "forward") and not hits:
            hits.append(at)
            raise IndexError("a wrong index")

    hits: list[str] = []
    run = guarded(gpt, tmp_path / "run", hit=hit)
    assert run.bits == bare(gpt)
    (finding,) = run.findings
    assert "IndexError" in finding.evidence["detail"]
    hits.clear()
    with pytest.raises(IndexError):
        guarded(gpt, tmp_path / "warn", hit=hit, on_finding="warn")


def test_an_error_of_the_program_is_its_own(tmp_path: Path) -> None:
    def hit(loop: Loop, at: str) -> None:
        if loop.at == 3 and at == "backward":
            count.append(at)
            raise ValueError("a mistake")

    count: list[str] = []
    with pytest.raises(ValueError, match="a mistake"):
        guarded(gpt, tmp_path / "run", hit=hit)
    assert len(count) == 2


def test_a_step_that_draws_its_own_batch_is_left_alone(tmp_path: Path) -> None:
    def train(step: Any, model: nn.Module, optimizer: Any) -> list[float]:
        batches = iter(torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(1)))

        def fn() -> float:
            optimizer.zero_grad()
            loss = model(next(batches)).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        return [step(fn) for _ in range(5)]

    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="rewind") as guard:
        losses = train(guard.step, model, optimizer)
    assert len(losses) == 5
    assert not guard.findings
    (skipped,) = [s for s in guard.coverage.skipped if s.what == "replay of whole steps"]
    assert "argument" in skipped.why
    assert guard.verdict.status == "inconclusive"


def test_a_model_that_does_not_repeat_is_no_corruption(tmp_path: Path) -> None:
    class Noisy(nn.Linear):
        count = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Noisy.count += 1
            return super().forward(x) * (1 + 1e-6 * Noisy.count)

    model = nn.Sequential(Noisy(3, 3), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fn(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    settings: Any = {"replay_every": 1, "on_finding": "rewind"}
    with everybit.Guard(model, optimizer, run=tmp_path / "run", **settings) as guard:
        for _ in range(5):
            guard.step(fn, torch.ones(2, 3))
        assert guard.step == 5
    assert {finding.rule for finding in guard.findings} == {"CMP703"}
    assert guard.findings[0].where.module == "0"


def test_arguments_that_a_step_writes_are_put_back(tmp_path: Path) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fn(batch: dict[str, torch.Tensor]) -> None:
        batch["x"].mul_(2)
        optimizer.zero_grad()
        model(batch["x"]).square().mean().backward()
        optimizer.step()

    batch = {"x": torch.ones(2, 3)}
    with everybit.Guard(model, optimizer, run=tmp_path / "run", replay_every=1) as guard:
        guard.step(fn, batch)
    assert not guard.findings
    assert batch["x"].eq(2).all()


def test_what_is_carried_beside_the_model(tmp_path: Path) -> None:
    class Counter:
        def __init__(self) -> None:
            self.value = 0

        def state_dict(self) -> dict[str, int]:
            return {"value": self.value}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.value = state["value"]

    loop, counter = build(gpt), Counter()
    average = torch.optim.swa_utils.AveragedModel(loop.model)

    def fn(*batches: Any) -> torch.Tensor:
        counter.value += 1
        result = loop.step(*batches)
        average.update_parameters(loop.model)
        return result

    with everybit.Guard(loop.model, loop.optimizer, run=tmp_path / "run", replay_every=1) as guard:
        with pytest.raises(UsageError, match="state_dict"):
            guard.carry(3)
        guard.carry(counter)
        loop.run(lambda _fn, *args: guard.step(fn, *args))
    assert not guard.findings
    assert counter.value == 6
    assert int(average.n_averaged) == 6
    assert loop.bits() == bare(gpt)


def test_the_count_is_a_number(tmp_path: Path) -> None:
    loop = build(gpt, steps=2)
    with everybit.Guard(loop.model, loop.optimizer, run=tmp_path / "run") as guard:
        loop.run(guard.step)
        assert guard.step == 2
        assert isinstance(guard.step, int)
        assert f"{guard.step:03d}" == "002"
    # Once the Guard is left, the step is computed and nothing else.
    assert guard.step(lambda value: value + 1, 2) == 3


def test_rewinding_without_the_closure_form_says_so(tmp_path: Path) -> None:
    loop = build(gpt, steps=2)
    settings: Any = {"on_finding": "rewind"}
    with everybit.Guard(loop.model, loop.optimizer, run=tmp_path / "run", **settings) as guard:
        loop.run(lambda fn, *args: fn(*args))
    assert any("guard.step(fn, batch)" in skipped.why for skipped in guard.coverage.skipped)


def test_sensors_forget_what_was_undone(tmp_path: Path) -> None:
    def hit(loop: Loop, at: str) -> None:
        if (loop.at, at) == (3, "backward") and not hits:
            gradient = loop.model.get_parameter("head.weight").grad
            assert gradient is not None
            hits.append(gradient.fill_(torch.nan))

    hits: list[Any] = []
    run = guarded(gpt, tmp_path / "run", hit=hit)
    assert run.bits == bare(gpt)
    (finding,) = run.findings
    assert (finding.rule, finding.where.step) == ("CMP701", 3)
    assert finding.evidence["signs"] == ["NUM502"]
    # Nothing of it is left in what they remember: no step is told as broken.
    assert not run.verdict.coverage.skipped
