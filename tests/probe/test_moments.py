"""Optimizer state looked at element by element."""

from __future__ import annotations

import math

import pytest
import torch
from torch import optim

from everybit.detect.moment_impossible import adam_bound
from everybit.probe.moments import MomentState, find_moment_faults, is_adam
from everybit.probe.movement import knows, skips_without_gradient, steps_due


def state_after(make, *, steps=30, dtype=torch.float32, scale=1.0):
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(6, 8).to(dtype))
    optimizer = make([parameter])
    for step in range(steps):
        burst = 1e3 if step == steps - 1 else 1.0
        parameter.grad = (burst * scale * torch.randn(6, 8)).to(dtype)
        optimizer.step()
    group = optimizer.param_groups[0]
    bound = adam_bound(*group["betas"]) if is_adam(optimizer) else math.inf
    return MomentState("w", parameter, optimizer.state[parameter], bound), optimizer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.Adam(p, amsgrad=True, maximize=True),
        lambda p: optim.AdamW(p, betas=(0.5, 0.9)),
        lambda p: optim.NAdam(p),
        lambda p: optim.RAdam(p, betas=(0.95, 0.98)),
        lambda p: optim.Adamax(p),
    ],
)
def test_state_that_torch_leaves_is_possible(make, scale, dtype):
    item, _ = state_after(make, scale=scale, dtype=dtype)
    assert list(find_moment_faults(item)) == []


@pytest.mark.parametrize(
    ("tensor", "change", "what"),
    [
        ("exp_avg_sq", lambda v: -v - 1e-3, "negative"),
        ("exp_avg", lambda m: m * 2.0**64, "too large"),
        ("exp_avg", lambda m: m * math.nan, "not finite"),
        ("max_exp_avg_sq", lambda v: v + math.inf, "not finite"),
    ],
)
def test_state_that_cannot_be(tensor, change, what):
    item, _ = state_after(lambda p: optim.Adam(p, amsgrad=True))
    values = item.state[tensor]
    values[2, 3] = change(values[2, 3])
    (fault, *more) = find_moment_faults(item)
    assert fault.tensor == tensor
    assert what in fault.what
    assert fault.elements == (19,)
    assert all(each.elements == (19,) for each in more)


def test_state_of_another_shape():
    item, _ = state_after(optim.Adam)
    item.state["exp_avg"] = torch.zeros(3, 3)
    assert "another shape" in next(find_moment_faults(item)).what


def test_what_only_looks_like_adam():
    class Own(optim.Adam):
        def step(self, closure=None):
            pass

    parameter = torch.nn.Parameter(torch.zeros(2))
    assert not is_adam(Own([parameter]))
    assert not knows(Own([parameter]))
    assert is_adam(optim.AdamW([parameter]))
    assert not skips_without_gradient(optim.LBFGS([parameter]))


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
        lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: optim.SGD(p, 0.1, maximize=True),
        lambda p: optim.Adam(p, weight_decay=0.1),
        lambda p: optim.AdamW(p, weight_decay=0.1, amsgrad=True),
        lambda p: optim.AdamW(p, maximize=True),
    ],
)
def test_the_step_that_is_due_is_the_one_that_was_taken(make):
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    optimizer = make([parameter])
    for _ in range(3):
        parameter.grad = torch.randn(5, dtype=torch.float64)
        before = parameter.detach().clone()
        optimizer.step()
        taken = float((parameter.detach() - before).abs().max())
        due = steps_due(optimizer, optimizer.param_groups[0], parameter)
        assert due * torch.finfo(torch.float64).eps == pytest.approx(taken, rel=0.4)


def test_what_rounding_eats_is_not_due():
    parameter = torch.nn.Parameter(torch.ones(5, dtype=torch.bfloat16))
    optimizer = optim.AdamW([parameter], lr=1e-5, weight_decay=0.0)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert steps_due(optimizer, optimizer.param_groups[0], parameter) < 1
