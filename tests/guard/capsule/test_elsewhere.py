"""A part that failed on an accelerator is computed on the CPU, within a bound, and counts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.capsule.test_capsule import Block, erring
from torch import nn

import everybit
from everybit.core.link import Link
from everybit.core.mismatch import Cause, Mismatch
from everybit.detect.compute_mismatch import judge_mismatch, weighed
from everybit.guard.capsule import find_capsules, keeping, read_capsule
from everybit.guard.capsule.bound import bounds_of, gamma
from everybit.guard.capsule.elsewhere import ask_cpu, on_cpu

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.guard.capsule import Capsule


def run(folder: Path, model: nn.Module, layer: str, *, bit: int, **facts: Any) -> everybit.Guard:
    """A training in which one call of a layer errs, as if on an accelerator."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters())
    with (
        erring(model.get_submodule(layer), 4, bit=bit, **facts),
        everybit.Guard(model, optimizer, run=folder, on_finding="record", replay_every=1) as guard,
    ):
        for step in range(4):
            x = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return guard


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the model is computed on is taken for an accelerator; the CPU is another device."""
    monkeypatch.setattr(keeping, "is_cpu", lambda _: False)


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(Block(), nn.Linear(8, 1))


def told(guard: everybit.Guard) -> Any:
    (found,) = [each for each in guard.findings if each.rule == "CMP701"]
    return found, found.evidence.get("elsewhere", {}).get("the CPU")


@pytest.mark.usefixtures("accelerator")
def test_the_cpu_speaks_for_the_repeats(tmp_path: Path) -> None:
    found, says = told(run(tmp_path / "run", model(), "0.up", bit=27))
    assert says["first"] == "wrong"
    assert says["repeats"] == "may be right"
    assert says["proven"]
    assert found.evidence["verdict"] == "transient"
    assert found.evidence["computations_that_agree"] == 4
    assert "the CPU agrees with the repeats" in found.message


@pytest.mark.usefixtures("accelerator")
def test_a_flip_below_rounding_is_not_told_apart(tmp_path: Path) -> None:
    found, says = told(run(tmp_path / "run", model(), "0.up", bit=0))
    assert says["first"] == says["repeats"] == "may be right"
    assert found.evidence["computations_that_agree"] == 3
    assert found.severity == "error"  # Bits differ from three computations that agree.


def test_on_the_cpu_itself_nobody_is_asked(tmp_path: Path) -> None:
    found, says = told(run(tmp_path / "run", model(), "0.up", bit=27))
    assert says is None
    assert "not_computed_elsewhere" not in found.evidence


@pytest.mark.usefixtures("accelerator")
def test_why_the_cpu_was_not_asked_is_told(tmp_path: Path) -> None:
    strange = model()
    strange[0].up.lock = object()  # It has no plain form.
    found, says = told(run(tmp_path / "run", strange, "0.up", bit=27))
    assert says is None
    assert "object" in found.evidence["not_computed_elsewhere"]["the CPU"]


@pytest.fixture
def capsule(tmp_path: Path) -> Capsule:
    guard = run(tmp_path / "run", model(), "0.up", bit=27)
    (folder,) = find_capsules(guard.path)
    return read_capsule(folder)


def wrong(values: dict[str, torch.Tensor], name: str, by: float) -> dict[str, torch.Tensor]:
    return {**values, name: values[name] + by * values[name].abs().max()}


def unproven(**facts: Any) -> Mismatch:
    return Mismatch(
        step=3, rank=0, call=0, link=Link.FORWARD, module="up", num_for=3, num_against=1,
        **{"cause": Cause.UNPROVEN, **facts},
    )  # fmt: skip


def test_a_device_that_always_errs_is_persistent(capsule: Capsule) -> None:
    capsule.found = dict(capsule.right)
    capsule.right = wrong(capsule.right, "output 0", 1e-2)
    opinion = ask_cpu(capsule)
    assert (opinion.first, opinion.repeats) == (True, False)
    finding = judge_mismatch(weighed(unproven(opinions=(opinion,))))
    assert finding.evidence["verdict"] == "persistent"
    assert finding.severity == "error"
    assert finding.evidence["computations_that_do_not"] == 2


def test_a_wrong_gradient_breaks_its_bound(capsule: Capsule) -> None:
    capsule.seeds = {"output 0": torch.randn_like(capsule.right["output 0"])}
    capsule.right = on_cpu(capsule)
    assert ask_cpu(capsule).repeats is True
    capsule.facts = {"device": "cuda:0"}  # With full precision, nothing is rounded to TF32.
    for name in ("grad of weight", "grad of bias", "output 0"):
        right, capsule.right = capsule.right, wrong(capsule.right, name, 1e-4)
        assert ask_cpu(capsule).repeats is False
        capsule.right = right


def test_an_unproven_first_that_breaks_the_bound_is_transient(capsule: Capsule) -> None:
    opinion = ask_cpu(capsule)
    assert (opinion.first, opinion.repeats) == (False, True)
    assert weighed(unproven(opinions=(opinion,))).cause is Cause.TRANSIENT


def test_the_bound_holds_for_other_orders_of_adding(capsule: Capsule) -> None:
    """Products added up one by one, from the other end, in float32."""
    bounds = bounds_of(capsule, partial(on_cpu, capsule))
    weight, bias, x = capsule.tensors[0], capsule.tensors[1], capsule.tensors[2]
    products = x[:, None, :] * weight[None]
    total = bias.expand(len(x), -1).clone()
    for place in reversed(range(products.shape[-1])):
        total += products[..., place]
    excess = bounds.excess({"output 0": total})
    assert excess is not None
    assert 0 <= excess <= 1
    assert bounds.proven


def test_gamma_is_no_bound_for_sums_too_long() -> None:
    assert gamma(10, 0.01) == pytest.approx(0.1 / 0.9)
    assert gamma(100, 0.01) == float("inf")
