"""Optimizer state looked at element by element: what no run of the optimizer can have left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import optim

from everybit.core.numbers import MomentFault
from everybit.probe.numerics import count_bad, plain_values

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Averages and sums of squares: never below zero, in torch's own optimizers and in others'.
_SQUARES: Final = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "exp_inf")
#: Optimizers whose two moments are those of Adam (Kingma & Ba 2015), with their betas.
_ADAMS: Final = (optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.SparseAdam)
#: What rounding adds to the bound, a dtype. In float16 squares vanish: the bound says nothing.
_SLACK: Final = {torch.float32: 1.01, torch.float64: 1.0001, torch.bfloat16: 1.5}
#: First moments below this lie where squares of float32 lose their digits.
_TINY: Final = 1e-12

_NUM_LISTED: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class MomentState:
    """The state of one parameter.

    Attributes:
        label: Label of the parameter.
        parameter: The parameter.
        state: `optimizer.state[parameter]`.
        bound: The least C with m^2 <= C v for every pair of betas used so far; infinite where
            there is none.
    """

    label: str
    parameter: torch.Tensor
    state: dict[str, Any]
    bound: float


def is_adam(optimizer: optim.Optimizer) -> bool:
    """Whether the optimizer is one of torch's own with Adam's moments, its `step` untouched."""
    kind = next((base for base in _ADAMS if isinstance(optimizer, base)), None)
    return kind is not None and type(optimizer).step in [base.step for base in _ADAMS]


@torch.no_grad()
def find_moment_faults(item: MomentState) -> Iterator[MomentFault]:
    """Yield what cannot be in the state of one parameter. Exact; a sync on accelerators."""
    for name, value in item.state.items():
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            continue
        plain = plain_values(value)
        if plain is None:
            continue
        # Scalars and odd shapes may hold anything; what has the parameter's shape goes with it.
        if name.startswith("exp_avg") and _misfits(value, item.parameter):
            yield MomentFault(
                parameter=item.label,
                tensor=name,
                what="has another shape than its parameter",
                evidence={
                    "shape": list(value.shape),
                    "parameter_shape": list(item.parameter.shape),
                },
            )
            continue
        if value.shape == item.parameter.shape:
            num_bad, kind, first = count_bad(plain)
            if num_bad:
                yield MomentFault(
                    parameter=item.label,
                    tensor=name,
                    what="is not finite",
                    elements=(first,),
                    num_bad=num_bad,
                    evidence={"value": kind},
                )
                continue
        if name in _SQUARES and plain.numel() and bool(plain.amin() < 0):
            fault = _fault(item, name, plain < 0, "is negative", {}, plain)
            if fault is not None:
                yield fault
    fault = _out_of_bound(item)
    if fault is not None:
        yield fault


def _misfits(value: torch.Tensor, parameter: torch.Tensor) -> bool:
    return value.numel() != parameter.numel() and value.dim() == parameter.dim()


def _out_of_bound(item: MomentState) -> MomentFault | None:
    first, second = item.state.get("exp_avg"), item.state.get("exp_avg_sq")
    if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
        return None
    m, v = plain_values(first), plain_values(second)
    if m is None or v is None or m.shape != v.shape or not math.isfinite(item.bound):
        return None
    slack = _SLACK.get(m.dtype)
    if slack is None or m.dtype is not v.dtype:
        return None
    size = m.to(torch.float64) if m.dtype is torch.float64 else m.float()
    # Roots, not squares: m^2 may overflow where m is what a flipped exponent bit has left.
    limit = v.to(size.dtype).clamp(min=0).sqrt() * math.sqrt(item.bound * slack)
    evidence = {"bound": round(item.bound, 4), "formula": "m^2 <= C v"}
    flags = size.abs() > limit + _TINY
    return _fault(item, "exp_avg", flags, "is too large for exp_avg_sq", evidence, m, v)


def _fault(
    item: MomentState,
    name: str,
    flags: torch.Tensor,
    what: str,
    evidence: dict[str, Any],
    *values: torch.Tensor,
) -> MomentFault | None:
    if not bool(flags.any()):
        return None
    places = flags.reshape(-1).nonzero().reshape(-1)
    first = int(places[0])
    return MomentFault(
        parameter=item.label,
        tensor=name,
        what=what,
        elements=tuple(places[:_NUM_LISTED].tolist()),
        num_bad=len(places),
        evidence=evidence | {"values": [float(value.reshape(-1)[first]) for value in values]},
    )
