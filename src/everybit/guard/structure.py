"""The structure of a training loop: whether tensors came, went or were exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.guard.members import Members


def look_at_structure(members: Members, nested: Sequence[Any]) -> list[int]:
    """Return numbers that change when tensors are added, removed or exchanged anywhere.

    The identities are of containers that the marks keep alive, so that none comes again.

    Args:
        members: Root modules and optimizers.
        nested: Lists and mappings within the optimizers' state.
    """
    numbers: list[int] = []
    for root, _ in members.roots:
        for module in root.modules():
            parameters, buffers = module._parameters, module._buffers
            numbers += [id(parameters), len(parameters), id(buffers), len(buffers)]
            numbers.append(len(module._modules))
    for optimizer, _ in members.optimizers:
        numbers += [len(group["params"]) for group in optimizer.param_groups]
        for state in optimizer.state.values():
            numbers += [id(state), len(state)]
    return numbers + [len(part) for part in nested]
