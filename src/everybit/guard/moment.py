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
        skipped: The update does not happen (step boundaries under a GradScaler); a tensor where
            only the device knows yet.
        scaler: The GradScaler that drives the update, None with none (step boundaries).
        used: Whether weights may have been used since the last update: a root call that records a
            graph was seen, or no root call at all is (forward_start, step_start).
        updating: Optimizers whose `step` is running (a closure calls the model inside it).
        root: The root module that is called (forward boundaries).
        evaluating: The call is a step of its own: no optimizer is known, and no gradients are
            wanted (forward boundaries, step_end).
        outputs: What the call returned, as one value; empty where an error ended it (forward_end).
        alone: No other thread is inside a root call or an update.
        gradients_alone: No other thread is inside a backward pass, or rewrites gradients.
        differentiable: The call records a graph (forward_start).
    """

    step: int
    call: int = 0
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    losses: tuple[torch.Tensor, ...] = ()
    optimizer: torch.optim.Optimizer | None = None
    skipped: bool | torch.Tensor = False
    scaler: Any = None
    used: bool = False
    updating: tuple[torch.optim.Optimizer, ...] = ()
    root: torch.nn.Module | None = None
    evaluating: bool = False
    outputs: tuple[Any, ...] = ()
    alone: bool = True
    gradients_alone: bool = True
    differentiable: bool = True
