"""Runs hit by faults end bit for bit as those that were not, each fault named at its place."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from bench.closure_loops import MEMORY, Loop, bare, cnn, flip, gpt, guarded, target

from everybit.core.finding import Certainty
from everybit.core.link import Link
from everybit.inject import ComputedFault, ComputedKind

if TYPE_CHECKING:
    from pathlib import Path

MODELS = {"gpt": gpt, "cnn": cnn}
#: Modules of each whose results are damaged.
MODULES = {
    "gpt": ["embed", "blocks.0.qkv", "blocks.1.up", "head"],
    "cnn": ["conv1", "norm", "head"],
}


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    return {name: bare(make) for name, make in MODELS.items()}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("kind", "point"), MEMORY, ids=lambda part: part)
def test_memory(
    model: str, kind: str, point: str, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    count = 1 if (model == "gpt") == (point in ("between", "clipped")) else 40
    rng = random.Random(f"{model}{kind}{point}{count}")
    told: list[Any] = []

    def hit(loop: Loop, at: str) -> None:
        if at != point or loop.at != 3 or told:
            return
        name, tensor, slot = target(loop, kind, rng)
        elements = rng.sample(range(tensor.numel()), min(count, tensor.numel()))
        for element in elements:
            flip(tensor, element, rng.randrange(8 * tensor.element_size()))
        told.append((name, slot, sorted(elements)))

    run = guarded(MODELS[model], tmp_path / "run", hit=hit)
    assert told
    assert run.bits == undisturbed[model]
    (finding,) = run.findings
    name, slot, elements = told[0]
    where = finding.where
    rules = {"moment": "MEM602", "gradient": "MEM603"}
    assert finding.rule == rules.get(kind, "MEM601"), finding.message
    assert (where.parameter, where.tensor) == (name, slot)
    # A step is that in which the bits would next be used.
    assert where.step == (4 if point == "updated" or (kind, point) == ("buffer", "forward") else 3)
    if count == 1:
        assert where.elements == tuple(elements)
    assert finding.evidence["healed"] or finding.evidence["rewound"]


COMPUTED = [
    ComputedKind.ACTIVATION,
    ComputedKind.INPUT_GRADIENT,
    ComputedKind.PARAMETER_GRADIENT,
    ComputedKind.SAVED,
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", COMPUTED, ids=str)
def test_computation(
    model: str, kind: ComputedKind, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    rng, at = random.Random(f"{model}{kind}"), 2
    first = 1 if kind is ComputedKind.INPUT_GRADIENT else 0
    module = rng.choice(MODULES[model][first:])
    fault = ComputedFault(kind=kind, module=module, step=at, seed=rng.randrange(1000))
    run = guarded(MODELS[model], tmp_path / "run", faults=[fault])
    (hit,) = run.hits
    assert run.bits == undisturbed[model]
    if not run.findings:  # Nothing that anybody reads changed: a saved value that backward ignores.
        assert kind is ComputedKind.SAVED
        return
    (finding,) = run.findings
    assert finding.rule == "CMP701"
    assert finding.certainty is Certainty.PROOF
    assert finding.evidence["verdict"] == "transient"
    assert (finding.evidence["for"], finding.evidence["against"]) == (2, 1)
    where = finding.where
    assert (where.step, where.rank) == (at, 0)
    assert where.link is (Link.FORWARD if kind is ComputedKind.ACTIVATION else Link.GRAD)
    assert where.module == module, finding.message
    if kind is ComputedKind.ACTIVATION:
        assert where.elements == hit.where.elements
        assert finding.evidence["pattern"] == "single"


@pytest.mark.parametrize("model", MODELS)
def test_batch_loss_and_update(
    model: str, tmp_path: Path, undisturbed: dict[str, Any], monkeypatch: Any
) -> None:
    """The batch in memory, the loss on its way, and what the optimizer's kernel writes."""
    batch = ComputedFault(kind=ComputedKind.BATCH, step=3, seed=2)
    run = guarded(MODELS[model], tmp_path / "batch", faults=[batch])
    assert run.bits == undisturbed[model]
    # A token that the table has no row for is told as well.
    (finding,) = (each for each in run.findings if each.rule != "DAT412")
    assert (finding.rule, finding.where.link, finding.where.step) == ("CMP701", Link.BATCH, 3)

    backward, count = torch.Tensor.backward, [0]

    def wrong(loss: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        count[0] += 1
        if count[0] == 7:  # The first computation of step 3.
            loss.detach().view(torch.int32)[...] ^= 1 << 20
        backward(loss, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "backward", wrong)
    run = guarded(MODELS[model], tmp_path / "loss")
    monkeypatch.undo()
    assert run.bits == undisturbed[model]
    (finding,) = run.findings
    assert (finding.rule, finding.where.link, finding.where.step) == ("CMP701", Link.LOSS, 3)

    addcdiv, calls = torch._foreach_addcdiv_, [0]

    def err(tensors: Any, *args: Any) -> None:
        addcdiv(tensors, *args)
        calls[0] += 1
        if calls[0] == 7:
            flip(tensors[0], 1, 12)

    monkeypatch.setattr(torch, "_foreach_addcdiv_", err)
    run = guarded(MODELS[model], tmp_path / "update")
    monkeypatch.undo()
    if calls[0]:  # The optimizer went this way.
        assert run.bits == undisturbed[model]
        (finding,) = run.findings
        assert (finding.rule, finding.where.link) == ("CMP701", Link.UPDATE)
        assert (finding.where.step, finding.where.elements) == (3, (1,))
