"""Gradients that a job reduces: what a rank puts into the reduction, and what it gets out of it.

Under `DistributedDataParallel` each rank gets the whole mean. Under FSDP2 each gets its own part of
the mean, in the gradient of its shard; what it puts in is the gradient of the gathered parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.shards import local_of, shard_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    Ranks = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reduced:
    """One gradient that is reduced.

    Attributes:
        name: Of the parameter.
        parameter: Holds the reduced gradient.
        source: The gradient that goes in is accumulated on this; the parameter itself under DDP.
        start: Of a shard: the flat index in the whole at which it begins; None where all of the
            mean comes back.
    """

    name: str
    parameter: torch.Tensor
    source: torch.Tensor
    start: int | None = None

    @property
    def gradient(self) -> torch.Tensor | None:
        """What came out of the reduction here; None where nothing did."""
        found = self.parameter.grad
        return None if found is None else local_of(found)


class ShardedReduction:
    """What FSDP2 reduces of a loop's parameters.

    Args:
        roots: The root modules.

    Attributes:
        ranks: The ranks over which gradients are scattered.
        why_not: Why their reduction is not summed, "" where it is, or where there is none.
        present: Whether FSDP2 shards any parameter.
    """

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        self.ranks: Ranks = ()
        self.why_not = ""
        self._groups: list[Any] = []
        try:
            self._groups = [group for root in roots for group in _groups_in(root)]
            self._look()
        except (AttributeError, RuntimeError, TypeError) as error:
            self.why_not = f"what FSDP keeps is not known here ({type(error).__name__}: {error})"
        self.present = bool(self._groups) or bool(self.why_not)

    def gradients(self, named: Iterable[tuple[str, torch.Tensor]]) -> list[Reduced]:
        """Return the gradients that the call which begins will have reduced.

        Args:
            named: Parameters under marks.
        """
        if self.why_not or not all(group.reduce_grads for group in self._groups):
            return []
        sources = {
            id(each.sharded_param): each for group in self._groups for each in group.fsdp_params
        }
        found = []
        for name, parameter in named:
            known = sources.get(id(parameter))
            source = getattr(known, "_unsharded_param", None)  # From the first gathering on.
            # What is there already is added to what comes out, not to what goes in.
            if source is None or parameter.grad is not None or not parameter.requires_grad:
                continue
            if getattr(known, "unsharded_accumulated_grad", None) is not None:
                continue
            start = _start_of(parameter)
            if start is not None:
                found.append(Reduced(name, parameter, source, start))
        return found

    def _look(self) -> None:
        among: set[Ranks] = set()
        for group in self._groups:
            info, policy = group.mesh_info, group.mp_policy
            if hasattr(info, "replicate_process_group"):
                self.why_not = "the gradients of FSDP are reduced over two dimensions of the mesh"
            elif policy.param_dtype is not None or policy.reduce_dtype is not None:
                self.why_not = "FSDP reduces them in another dtype (mixed precision)"
            else:
                ranks = torch.distributed.get_process_group_ranks(info.shard_process_group)
                among.add(tuple(ranks))
        if len(among) > 1:
            self.why_not = "units of FSDP are sharded over different ranks"
        elif among:
            (self.ranks,) = among


def _groups_in(root: torch.nn.Module) -> list[Any]:
    """Return FSDP2's groups of parameters; torch has no public way to them."""
    found = []
    for part in root.modules():
        if not any(kind.__name__ == "FSDPModule" for kind in type(part).__mro__):
            continue
        state: Any = part._get_fsdp_state()  # type: ignore[operator]
        groups = getattr(state, "_fsdp_param_groups", None)
        groups = [state._fsdp_param_group] if groups is None else groups
        found += [group for group in groups if group is not None]
    return found


def _start_of(parameter: torch.Tensor) -> int | None:
    """Return where a shard begins in the whole; None where it is no run of it."""
    shard = shard_of(parameter)
    if shard is None or shard.offset is None:
        return None
    inner = tuple(shard.global_shape[1:])
    if tuple(local_of(parameter).shape[1:]) != inner:
        return None
    size = 1
    for length in inner:
        size *= length
    return shard.offset[0] * size
