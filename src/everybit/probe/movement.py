"""How far an optimizer of torch had to move a parameter, from its own formula."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import optim

from everybit.probe.numerics import plain_values

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADAMS = (optim.Adam, optim.AdamW)
_KNOWN = (*_ADAMS, optim.SGD)


def knows(optimizer: optim.Optimizer) -> bool:
    """Whether the formula of the optimizer is known here: torch's own SGD, Adam and AdamW."""
    return type(optimizer).step in [kind.step for kind in _KNOWN]


def skips_without_gradient(optimizer: optim.Optimizer) -> bool:
    """Whether the optimizer is torch's own, and leaves alone what has no gradient."""
    kind = type(optimizer)
    return kind.__module__.startswith("torch.optim") and kind is not optim.LBFGS


@torch.no_grad()
def steps_due(
    optimizer: optim.Optimizer, group: Mapping[str, Any], parameter: torch.Tensor
) -> float:
    """Return the largest step of an element, in units of the spacing of its values.

    Asked after an update that left the parameter's bits as they were: well above 1 the update was
    lost, below 1 it was rounded away. NaN where the formula cannot be followed.

    Args:
        optimizer: One that is known (`knows`).
        group: The parameter's group.
        parameter: The parameter, with the gradient that the update used.
    """
    gradient = parameter.grad
    rate = float(group["lr"])
    if gradient is None or gradient.layout is not torch.strided:
        return math.nan
    g, w = plain_values(gradient), plain_values(parameter)
    if g is None or w is None or g.shape != w.shape or w.numel() == 0:
        return math.nan
    state = optimizer.state.get(parameter, {})
    if type(optimizer).step in [kind.step for kind in _ADAMS]:
        step = _adam_step(group, state)
    else:
        step = _sgd_step(group, state, g.double(), w.double())
    if step is None or step.shape != w.shape:
        return math.nan
    spacing = torch.finfo(w.dtype).eps * w.double().abs()
    spacing = spacing.clamp(min=float(torch.finfo(w.dtype).smallest_normal))
    decay = 0.0
    if group.get("decoupled_weight_decay") or isinstance(optimizer, optim.AdamW):
        decay = float(group.get("weight_decay", 0.0))
    whole = rate * (step + decay * w.double())
    return float((whole.abs() / spacing).max())


def _adam_step(group: Mapping[str, Any], state: Mapping[str, Any]) -> torch.Tensor | None:
    second = "max_exp_avg_sq" if group.get("amsgrad") else "exp_avg_sq"
    m, v, count = _plain(state, "exp_avg"), _plain(state, second), state.get("step")
    if m is None or v is None or count is None:
        return None
    beta1, beta2 = (float(beta) for beta in group["betas"])
    number = float(count)
    if number < 1:
        return None
    root = (v.double() / (1 - beta2**number)).sqrt() + float(group["eps"])
    step: torch.Tensor = m.double() / (1 - beta1**number) / root
    return step  # Its sign has `maximize` in it.


def _sgd_step(
    group: Mapping[str, Any], state: Mapping[str, Any], g: torch.Tensor, w: torch.Tensor
) -> torch.Tensor | None:
    if group.get("maximize"):
        g = -g
    g = g + float(group.get("weight_decay", 0.0)) * w
    momentum = float(group.get("momentum", 0.0))
    if not momentum:
        return g
    buffer = _plain(state, "momentum_buffer")
    if buffer is None or buffer.shape != g.shape:
        return None
    return g + momentum * buffer.double() if group.get("nesterov") else buffer.double()


def _plain(state: Mapping[str, Any], name: str) -> torch.Tensor | None:
    value = state.get(name)
    return plain_values(value) if isinstance(value, torch.Tensor) else None
