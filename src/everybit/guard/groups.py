"""Which tensors are tracked, in groups that are written together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.damage import Role
from everybit.guard.tracked import Tracked, track_module, track_optimizer
from everybit.probe.memory import is_shared, is_uninitialised, why_unreadable

if TYPE_CHECKING:
    import torch

    from everybit.guard.members import Members
    from everybit.guard.question import AnyMarks

#: Groups beside those of the optimizers, which go by their names.
BUFFERS = "(buffers)"
OTHERS = "(others)"


def grouped(members: Members, skipped: dict[str, str]) -> dict[str, list[Tracked]]:
    """Return every tracked tensor once, in groups that are written together.

    Args:
        members: Root modules and optimizers.
        skipped: Takes up what cannot be read, by name, and why.
    """
    groups: dict[str, list[Tracked]] = {name: [] for _, name in members.optimizers}
    groups |= {OTHERS: [], BUFFERS: []}
    owner_of = {
        id(parameter): name
        for optimizer, name in reversed(members.optimizers)
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    parameters: dict[int, Tracked] = {}
    seen: set[int] = set()
    for module, root_name in members.roots:
        for item in track_module(module, root_name):
            if id(item.tensor) in seen:
                continue
            seen.add(id(item.tensor))
            if item.role is Role.PARAMETER:
                parameters[id(item.tensor)] = item
            if _is_readable(item, skipped):
                group = owner_of.get(id(item.tensor), OTHERS)
                groups[BUFFERS if item.role is Role.BUFFER else group].append(item)
    for optimizer, name in members.optimizers:
        for item in track_optimizer(optimizer, name, parameters):
            if id(item.tensor) not in seen and _is_readable(item, skipped):
                seen.add(id(item.tensor))
                groups[name].append(item)
    return groups


def _is_readable(item: Tracked, skipped: dict[str, str]) -> bool:
    if is_uninitialised(item.tensor):
        return False  # There is nothing to test; once there is, it is taken up.
    reason = why_unreadable(item.local)
    if not reason and is_shared(item.local):
        reason = "it is shared with other processes, which may write to it"
    if not reason and item.local.is_inference():
        reason = "made in inference mode: nothing counts the writes to it"
    if reason:
        skipped[item.label] = reason
    return not reason


def fits_marks(known: list[AnyMarks], items: list[Tracked]) -> bool:
    """Whether these are marks of the same tensors in the same memory; takes over their names."""
    on_host, elsewhere = split_by_place(items)
    wanted = [on_host, elsewhere] if elsewhere else [on_host]
    fits = len(known) == len(wanted) and all(
        marks.fits(part) for marks, part in zip(known, wanted, strict=True)
    )
    if fits:
        for marks, part in zip(known, wanted, strict=True):
            marks.tracked = part
    return fits


def split_by_place(items: list[Tracked]) -> tuple[list[Tracked], list[Tracked]]:
    """Return the tensors in host memory, and those on accelerators."""
    on_host = [item for item in items if _on_host(item.tensor)]
    return on_host, [item for item in items if not _on_host(item.tensor)]


def _on_host(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu"
