"""A gradient norm that a sensor doubts has its step computed again before the update."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.replay.faults import wrong_once
from torch import nn

import everybit
from everybit.guard.replay.late import EXACTLY
from everybit.guard.replay.standby import Affordable

if TYPE_CHECKING:
    from pathlib import Path

AT, STEPS = 45, 48


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick record costs much beside the steps of so small a model."""
    monkeypatch.setattr(Affordable, "now", True)


class Loop:
    """A loop whose gradients jump at one step, for a reason of its own, while the loss does not."""

    factor = 1e4
    micro_batches = 1

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 4))

    def loss(self, model: nn.Module, step: int) -> torch.Tensor:
        # Steep, and of the usual value: the norm jumps, the loss does not.
        steep = self.factor if step == AT else 1.0
        outputs = model(torch.randn(32, 16))
        centred = outputs - outputs.detach()
        return outputs.detach().abs().mean() + steep * centred.mean()

    def before_update(self, model: nn.Module, step: int) -> None:
        pass

    def backward(self, model: nn.Module, step: int) -> None:
        for _ in range(self.micro_batches):
            self.loss(model, step).backward()

    def run(self, folder: Path | None, **settings: Any) -> Any:
        torch.manual_seed(0)
        model = self.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        settings = {"on_finding": "record", "replay_every": 0, **settings}
        guard = everybit.Guard(model, optimizer, run=folder, **settings) if folder else None
        if guard is None:
            self.train(model, optimizer)
        else:
            with guard:
                self.train(model, optimizer)
        return guard, [p.detach().clone() for p in model.parameters()], torch.rand(())

    def train(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for step in range(STEPS):
            optimizer.zero_grad()
            self.backward(model, step)
            self.before_update(model, step)
            optimizer.step()


class Accumulating(Loop):
    micro_batches = 3


class Twice(Loop):
    """Two calls under one backward pass."""

    def loss(self, model: nn.Module, step: int) -> torch.Tensor:
        return super().loss(model, step) + super().loss(model, step)


class Clipping(Loop):
    def before_update(self, model: nn.Module, step: int) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 100.0)


class Zeroing(Loop):
    def train(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad = lambda: nn.Module.zero_grad(model, set_to_none=False)  # type: ignore[method-assign]
        super().train(model, optimizer)


class Decaying(Loop):
    """A term of the loop's own: what is repeated is the model's calls only."""

    def loss(self, model: nn.Module, step: int) -> torch.Tensor:
        return super().loss(model, step) + 1e-3 * sum(p.square().sum() for p in model.parameters())


class Hooked(Loop):
    """Hooks of the program change gradients on their way in."""

    micro_batches = 2

    def model(self) -> nn.Module:
        model = super().model()
        model[0].weight.register_hook(lambda gradient: 2 * gradient)
        return model


class HookedBehind(Loop):
    """Hooks of the program change gradients as they are accumulated."""

    def model(self) -> nn.Module:
        model = super().model()
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.halve)
        return model

    @staticmethod
    def halve(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad *= 0.5


@pytest.mark.parametrize(
    "loop", [Loop, Accumulating, Twice, Clipping, Zeroing, Hooked, HookedBehind]
)
def test_a_steep_loss_repeats_exactly(loop: type[Loop], tmp_path: Path) -> None:
    guard, weights, rng = loop().run(tmp_path / "run")
    (finding,) = guard.findings
    assert (finding.rule, finding.severity, finding.where.step) == ("NUM504", "warning", AT)
    assert finding.evidence["replayed"] == EXACTLY
    assert "not the device" in finding.message
    checked = {each.what: each.count for each in guard.coverage.checked}
    assert checked["steps computed again for their gradients"] == 1
    _, bare, bare_rng = loop().run(None)
    assert all(torch.equal(one, two) for one, two in zip(weights, bare, strict=True))
    assert torch.equal(rng, bare_rng)


class DecayingHooked(Hooked, Decaying):
    pass


@pytest.mark.parametrize("loop", [Decaying, DecayingHooked])
def test_what_the_loop_adds_is_no_fault(loop: type[Loop], tmp_path: Path) -> None:
    guard, _, _ = loop().run(tmp_path / "run")
    (finding,) = guard.findings
    assert finding.rule == "NUM504"
    assert "a term that the loop adds" in finding.evidence["replayed"]
    assert "not the device" not in finding.message


def test_a_planned_replay_answers_for_it_too(tmp_path: Path) -> None:
    guard, _, _ = Loop().run(tmp_path / "run", replay_every=1)
    (finding,) = guard.findings
    assert finding.evidence["replayed"] == EXACTLY


def test_a_wrong_gradient_differs(tmp_path: Path) -> None:
    class Faulty(Loop):
        factor = 1.0

        def backward(self, model: nn.Module, step: int) -> None:
            handle = None
            if step == AT:
                wrong = [1e4]

                def once(_module: Any, _args: Any, output: torch.Tensor) -> None:
                    if wrong:
                        by = wrong.pop()
                        output.register_hook(lambda gradient: by * gradient)

                once.__module__ = "torch.testing"  # As the device itself would err.
                handle = model[0].register_forward_hook(once)
            super().backward(model, step)
            if handle is not None:
                handle.remove()

    guard, _, _ = Faulty().run(tmp_path / "run")
    (finding,) = guard.findings
    assert (finding.rule, finding.where.step) == ("NUM504", AT)
    assert finding.evidence["replayed"].startswith("differently: the gradient of 0.")


def test_a_flipped_activation_is_told_with_its_outputs(tmp_path: Path) -> None:
    class Steep(Loop):
        def backward(self, model: nn.Module, step: int) -> None:
            if step != AT:
                return super().backward(model, step)
            with wrong_once(model[3], "activation", random.Random(1), bit=20):
                super().backward(model, step)
            return None

    guard, _, _ = Steep().run(tmp_path / "run")
    rules = {finding.rule: finding for finding in guard.findings}
    assert rules["CMP701"].severity == "warning"
    assert rules["CMP701"].where.step == AT
    assert rules["CMP701"].evidence["num_elements"] == 1
