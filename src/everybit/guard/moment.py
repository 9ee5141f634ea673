"""What a check sees at a boundary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """A boundary of a step as the loop reached it.

    Attributes:
        step: Updates finished or skipped so far.
        call: Differentiable calls of a root module since the last update, from 0 (forward_start).
        args: Positional inputs of the call (forward_start).
        kwargs: Keyword inputs of the call (forward_start).
        losses: What `backward` received (backward_end).
        optimizer: The optimizer (step boundaries).
        skipped: The update did not happen (step_end under a GradScaler); a tensor where only the
            device knows yet.
        used: Whether weights may have been used since the last update: a root call that records a
            graph was seen, or no root call at all is (forward_start, step_start).
        updating: Optimizers whose `step` is running (a closure calls the model inside it).
        alone: No other thread is inside a root call or an update.
        differentiable: The call records a graph (forward_start).
    """

    step: int
    call: int = 0
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    losses: tuple[torch.Tensor, ...] = ()
    optimizer: torch.optim.Optimizer | None = None
    skipped: bool | torch.Tensor = False
    used: bool = False
    updating: tuple[torch.optim.Optimizer, ...] = ()
    alone: bool = True
    differentiable: bool = True
