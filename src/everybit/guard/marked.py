"""What is under marks, as the check on values wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.damage import Role
from everybit.guard.groups import OTHERS
from everybit.guard.marks import Marks
from everybit.guard.tracked import parameter_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from everybit.guard.state import CarriedState


def fingerprints_of(
    state: CarriedState, optimizer: torch.optim.Optimizer
) -> Iterator[tuple[str, torch.Tensor, int | bytes | None]]:
    """Yield `(label, parameter, fingerprint as marked)` of what an optimizer updates."""
    mine = parameter_ids(optimizer)
    for _, marks, index, item in state.marked():
        if item.role is Role.PARAMETER and id(item.tensor) in mine:
            yield item.label, item.tensor, marks.fingerprint(index)


def norms_of(state: CarriedState, optimizer: torch.optim.Optimizer) -> dict[int, float]:
    """Return the L2 norms of an optimizer's parameters as marked, by id, where they are known."""
    mine = parameter_ids(optimizer)
    return {
        id(item.tensor): norm
        for _, marks, index, item in state.marked()
        if isinstance(marks, Marks) and item.role is Role.PARAMETER and id(item.tensor) in mine
        if item.in_place and marks.same_memory(index) and not marks.version_moved(index)
        if (norm := marks.norm(index)) is not None
    }


def parameters_of(state: CarriedState) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield `(label, parameter)` of every model."""
    for _, _, _, item in state.marked():
        if item.role is Role.PARAMETER:
            yield item.label, item.tensor


def buffers_of(state: CarriedState) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield `(label, buffer)` of every model."""
    for _, _, _, item in state.marked():
        if item.role is Role.BUFFER:
            yield item.label, item.tensor


def unowned_of(state: CarriedState) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield `(label, parameter)` of what no optimizer holds."""
    for key, _, _, item in state.marked():
        if key == OTHERS and item.role is Role.PARAMETER:
            yield item.label, item.tensor
