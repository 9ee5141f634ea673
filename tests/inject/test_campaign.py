from __future__ import annotations

import pytest
import torch
from torch import nn

from everybit.core.boundary import Boundary
from everybit.core.config import Config
from everybit.core.errors import UsageError
from everybit.core.fault import Fault, TargetKind
from everybit.guard import Guard
from everybit.inject import Campaign, Undone, apply, draw_fault


def build() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(model, optimizer, num_steps=5, watch=lambda moment: None) -> None:
    for step in range(num_steps):
        data = torch.full((2, 4), float(step + 1))
        watch("forward_start")
        loss = model(data).square().mean()
        watch("backward")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        watch("step_end")


def flip(**changes) -> Fault:
    fields = {
        "kind": TargetKind.WEIGHT,
        "parameter": "weight",
        "elements": (3,),
        "masks": (1 << 31,),
        "step": 2,
    }
    return Fault(**{**fields, **changes})


def test_plants_at_its_step_and_before_checks_hooked_earlier() -> None:
    model, optimizer = build()
    seen = []
    model.register_forward_pre_hook(lambda *_: seen.append(model.weight[0, 3].item()))
    with Campaign([flip()], model, optimizer) as campaign:
        train(model, optimizer)
    assert [injection.where.step for injection in campaign.injections] == [2]
    assert campaign.waiting == []
    change = campaign.injections[0].changes[0]
    assert seen[2] == change.after == -change.before


def test_step_start_is_between_backward_and_the_update_and_seen_by_older_hooks() -> None:
    model, optimizer = build()
    seen: list[float] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(model.weight[0, 3].item()))
    fault = flip(boundary=Boundary.STEP_START)
    before_forward = []
    with Campaign([fault], model, optimizer) as campaign:
        train(model, optimizer, watch=lambda _: before_forward.append(model.weight[0, 3].item()))
    change = campaign.injections[0].changes[0]
    assert seen[2] == change.after
    assert before_forward[6] == before_forward[7] == change.before


def test_state_is_hit_after_the_update_of_its_step() -> None:
    model, optimizer = build()
    fault = flip(
        kind=TargetKind.STATE,
        tensor="momentum_buffer",
        optimizer="SGD",
        boundary=Boundary.STEP_END,
        step=1,
    )
    with Campaign([fault], model, optimizer) as campaign:
        train(model, optimizer, num_steps=1)
        held = optimizer.state[model.weight]["momentum_buffer"][0, 3].item()
        assert held == campaign.injections[0].changes[0].after
    assert optimizer.state[model.weight]["momentum_buffer"][0, 3].item() == -held


def test_on_exit_hooks_are_gone_and_untouched_damage_is_put_back() -> None:
    model, optimizer = build()
    buffer = nn.Module()
    buffer.register_buffer("still", torch.ones(4))
    fault = flip(kind=TargetKind.BUFFER, module="Module", parameter="still")
    with Campaign([fault], model, buffer, optimizer) as campaign:
        train(model, optimizer)
        assert buffer.still.tolist() == [1.0, 1.0, 1.0, -1.0]
    assert buffer.still.tolist() == [1.0] * 4
    train(model, optimizer)
    assert len(campaign.injections) == 1
    assert not model._forward_pre_hooks
    assert not model._forward_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_without_undo_the_damage_stays_until_asked() -> None:
    buffer = nn.Identity()
    buffer.register_buffer("still", torch.ones(4))
    fault = flip(kind=TargetKind.BUFFER, parameter="still", step=0)
    with Campaign([fault], buffer, undo=False) as campaign:
        buffer(torch.ones(1))
    assert buffer.still[3] == -1.0
    assert campaign.undo() == Undone(restored=1, left=0)
    assert buffer.still[3] == 1.0


def test_a_stuck_value_is_forced_again_until_its_last_step() -> None:
    model, optimizer = build()
    fault = draw_fault(
        model, seed=0, pattern="stuck", where="bias", value=0.25, step=1, last_step=2
    )
    (element,) = fault.elements
    seen = []
    model.register_forward_pre_hook(lambda *_: seen.append(model.bias[element].item()))
    with Campaign([fault], model, optimizer) as campaign:
        train(model, optimizer)
    assert seen[1] == seen[2] == 0.25
    assert 0.25 not in (seen[0], seen[3], seen[4])
    assert [injection.where.step for injection in campaign.injections] == [1, 2]


def test_an_empty_campaign_changes_no_bit() -> None:
    plain, watched = build(), build()
    train(*plain)
    with Campaign([], *watched):
        train(*watched)
    assert torch.equal(plain[0].weight, watched[0].weight)


def test_backward_end_has_no_hook_to_plant_from() -> None:
    with pytest.raises(UsageError, match="backward_end"):
        Campaign([flip(boundary=Boundary.BACKWARD_END)], *build())


def test_the_caller_may_count_steps() -> None:
    model, optimizer = build()
    with Campaign([flip(step=7)], model, optimizer, count=lambda: 7) as campaign:
        model(torch.ones(1, 4))
    assert [injection.where.step for injection in campaign.injections] == [7]


def test_a_gradient_is_hit_between_backward_and_update() -> None:
    model, optimizer = build()
    train(model, optimizer, num_steps=3)
    clean = {name: value.detach().clone() for name, value in model.named_parameters()}
    model, optimizer = build()
    fault = draw_fault(model, optimizer, seed=1, where=TargetKind.GRADIENT, step=2, bits=(30,),
                       boundary=Boundary.STEP_START)  # fmt: skip
    assert (fault.kind, fault.where.link) == (TargetKind.GRADIENT, "grad")
    with Campaign([fault], model, optimizer) as campaign:
        train(model, optimizer, num_steps=3)
    (injection,) = campaign.injections
    assert injection.where.step == 2
    differing = [n for n, p in model.named_parameters() if not torch.equal(p, clean[n])]
    assert differing == [fault.parameter]
    with pytest.raises(UsageError, match="gradients exist from the backward pass"):
        Campaign([fault], model, optimizer).advance(Boundary.STEP_START, 2)


def test_a_stale_weight_is_what_it_was_a_step_before() -> None:
    model, optimizer = build()
    fault = draw_fault(model, seed=1, pattern="stale", where="weight", step=2, num_elements=8)
    before = []
    with Campaign([fault], model, optimizer, undo=False) as campaign:
        train(
            model,
            optimizer,
            num_steps=3,
            watch=lambda moment: moment != "step_end" and before.append(model.weight.clone()),
        )
    assert torch.equal(before[5], before[3])  # in step 2 what step 1 began with
    assert not torch.equal(before[3], before[1])
    assert len(campaign.injections[0].changes) == 8
    with pytest.raises(UsageError, match="use a Campaign"):
        apply(fault, model)


def test_a_guard_that_was_entered_before_looks_after_the_fault(tmp_path) -> None:
    for boundary in (Boundary.FORWARD_START, Boundary.STEP_START):
        model, optimizer = build()
        guard = Guard(model, optimizer, run=tmp_path / boundary, config=Config())
        with guard, Campaign([flip(boundary=boundary)], model, optimizer, undo=False):
            train(model, optimizer)
        assert [(f.rule, f.where.step) for f in guard.findings] == [("MEM601", 2)]
