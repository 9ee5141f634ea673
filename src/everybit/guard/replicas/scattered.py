"""What FSDP2 reduces of a loop's parameters, and how; torch has no public way to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.replicas.block_sums import Rounding
from everybit.guard.replicas.reduced import ScatteredGradient
from everybit.guard.shards import local_of, shard_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    Ranks = tuple[int, ...]


class ScatteredReduction:
    """The gradients that FSDP2 scatters.

    Args:
        roots: The root modules.

    Attributes:
        replicas: The ranks that hold the parts of one copy, a tuple for each copy.
        why_not: Why their reduction is not summed, "" where it is, or where there is none.
        present: Whether FSDP2 shards any parameter.
        whys: Why some of it was not summed in some passes.
    """

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        self.replicas: tuple[Ranks, ...] = ()
        self.why_not = ""
        self.whys: set[str] = set()
        self._groups: list[Any] = []
        try:
            self._groups = [group for root in roots for group in _groups_in(root)]
            self._look()
        except (AttributeError, RuntimeError, TypeError) as error:
            self.why_not = f"what FSDP keeps is not known here ({type(error).__name__}: {error})"
        self.present = bool(self._groups) or bool(self.why_not)

    @property
    def ranks(self) -> Ranks:
        """The ranks that are reduced together."""
        return tuple(rank for copy in self.replicas for rank in copy)

    def gradients(self, named: Iterable[tuple[str, torch.Tensor]]) -> list[ScatteredGradient]:
        """Return the gradients that the backward pass which begins will have reduced.

        Args:
            named: Parameters under marks.
        """
        if self.why_not or not all(group.reduce_grads for group in self._groups):
            return []
        if why := self._why_later():
            self.whys.add(why)
            return []
        kept = {
            id(each.sharded_param): (each, group)
            for group in self._groups
            for each in group.fsdp_params
        }
        found = []
        for name, parameter in named:
            if id(parameter) in kept and parameter.requires_grad:
                one = self._gradient(name, parameter, *kept[id(parameter)])
                found += [one] if one is not None else []
        return found

    def _gradient(
        self, name: str, parameter: torch.Tensor, kept: Any, group: Any
    ) -> ScatteredGradient | None:
        source = getattr(kept, "_unsharded_param", None)  # None: no pass has gathered it.
        shard = shard_of(parameter)
        if source is None or shard is None:
            return None
        if shard.offset is None or kept.is_dtensor:
            self.whys.add("shards of tensor parallelism are sharded once more")
            return None
        num_ranks = len(self.ranks)
        result = local_of(parameter).dtype
        dtype = group.mp_policy.reduce_dtype or source.dtype
        wide = torch.finfo(dtype).eps > torch.finfo(source.dtype).eps
        rounding = Rounding(
            num_ranks=num_ranks,
            dtype=dtype,
            # FSDP may divide before the sum and behind it; with copies of shards once more.
            factors=3 if len(self.replicas) > 1 else 2,
            # Into the dtype of the reduction; and what earlier passes have left is added to.
            casts=int(wide) + (kept.unsharded_accumulated_grad is not None),
            result=result if torch.finfo(result).eps > torch.finfo(dtype).eps else None,
        )
        divisor = group.gradient_divide_factor or float(num_ranks)
        return ScatteredGradient(name, parameter, source, rounding, divisor, shard, kept)

    def _why_later(self) -> str:
        """Return why what comes out of the pass that begins is not what went in."""
        for group in self._groups:
            if not group.all_reduce_grads or group._partial_reduce_output is not None:
                return "gradients of a pass waited for the all-reduce of a later one"
            if group._all_reduce_hook is not None:
                return "a hook of the program's reduces the gradients of FSDP in its own way"
        return ""

    def _look(self) -> None:
        among = {_replicas_of(group.mesh_info) for group in self._groups}
        if len(among) > 1:
            self.why_not = "units of FSDP are sharded over different ranks"
        elif among:
            (self.replicas,) = among


def _replicas_of(info: Any) -> tuple[Ranks, ...]:
    """Return the ranks of a mesh, a tuple for each copy of the shards."""
    mesh: torch.Tensor = info.mesh.mesh
    copies, shards = info.replicate_mesh_dim, info.shard_mesh_dim
    if mesh.dim() != (copies is not None) + (shards is not None):
        raise RuntimeError("a mesh of more dimensions than FSDP uses")
    if copies is None:
        mesh = mesh.reshape(1, -1)
    elif shards is None:
        mesh = mesh.reshape(-1, 1)
    elif copies > shards:
        mesh = mesh.T
    return tuple(tuple(int(rank) for rank in copy) for copy in mesh.tolist())


def _groups_in(root: torch.nn.Module) -> list[Any]:
    """Return FSDP2's groups of parameters."""
    found = []
    for part in root.modules():
        if not any(kind.__name__ == "FSDPModule" for kind in type(part).__mro__):
            continue
        state: Any = part._get_fsdp_state()  # type: ignore[operator]
        groups = getattr(state, "_fsdp_param_groups", None)
        groups = [state._fsdp_param_group] if groups is None else groups
        found += [group for group in groups if group is not None]
    return found
