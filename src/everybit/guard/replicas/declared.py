"""Which tensors the program itself keeps equal on several ranks: by DDP, or by a DTensor's mesh."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.shards import is_sharded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Ranks = tuple[int, ...]

_LOCAL_SGD = "post_localSGD"


class Declared:
    """What `DistributedDataParallel` says of a loop's parameters.

    Args:
        roots: The root modules; where none of them holds the wrapper, it is looked for once among
            all live objects.

    Attributes:
        why_local: Why their copies are not kept equal after all, "" where they are.
    """

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        roots = list(roots)
        wrappers: list[Any] = [part for root in roots for part in _wrappers_in(root)]
        if not wrappers:
            inside = {id(part) for root in roots for part in root.modules()}
            wrappers = [each for each in _live_wrappers() if id(each.module) in inside]
        self._wrappers = [weakref.ref(wrapper) for wrapper in wrappers]
        self.why_local = ""
        for wrapper in self.wrappers:
            if any(_is_local_sgd(hook) for hook, _ in wrapper._comm_hooks):
                self.why_local = "a communication hook averages the models now and then (local SGD)"

    @property
    def wrappers(self) -> list[Any]:
        """The DDP modules that live."""
        return [wrapper for ref in self._wrappers if (wrapper := ref()) is not None]

    def peers(self) -> dict[int, Ranks]:
        """Return the ranks that hold copies of a parameter, by the parameter's id."""
        found: dict[int, Ranks] = {}
        for wrapper in self.wrappers:
            ranks = tuple(torch.distributed.get_process_group_ranks(wrapper.process_group))
            for name, parameter in wrapper.module.named_parameters():
                if name not in wrapper.parameters_to_ignore:
                    found[id(parameter)] = ranks
        return found

    def reduced(self) -> dict[int, Ranks]:
        """Return the same of parameters whose gradients DDP itself reduces to their mean."""
        if self.why_unreduced:
            return {}
        peers = self.peers()
        return {
            id(parameter): peers[id(parameter)]
            for wrapper in self.wrappers
            for parameter in wrapper.module.parameters()
            if parameter.requires_grad and id(parameter) in peers
        }

    @property
    def why_unreduced(self) -> str:
        """Why the reduction of gradients is not checked, "" where it is."""
        if not self.wrappers:
            return "no DistributedDataParallel reduces them"
        if any(wrapper._comm_hooks for wrapper in self.wrappers):
            return "a communication hook of the program's reduces them in its own way"
        if any(wrapper.mixed_precision is not None for wrapper in self.wrappers):
            return "they are reduced in another dtype than the parameters' (mixed precision)"
        return ""

    @property
    def syncs(self) -> bool:
        """Whether the gradients of a call that begins now will be reduced (`no_sync`)."""
        return all(wrapper.require_backward_grad_sync for wrapper in self.wrappers)

    @property
    def joins(self) -> bool:
        """Whether ranks may run out of batches before others (`join`)."""
        return any(wrapper._join_config.enable for wrapper in self.wrappers)


def mesh_peers(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the ranks that hold the same part of a DTensor, this one among them; else none."""
    if not is_sharded(tensor):
        return ()
    from torch.distributed.tensor import DTensor, Replicate

    if not isinstance(tensor, DTensor):
        return ()
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return ()
    index = tuple(
        slice(None) if isinstance(placement, Replicate) else place
        for placement, place in zip(tensor.placements, coordinate, strict=True)
    )
    return tuple(int(rank) for rank in mesh.mesh[index].reshape(-1).tolist())


def _wrappers_in(root: torch.nn.Module) -> Iterator[Any]:
    from torch.nn.parallel import DistributedDataParallel

    return (part for part in root.modules() if type(part) is DistributedDataParallel)


def _live_wrappers() -> list[Any]:
    from torch.nn.parallel import DistributedDataParallel

    return [o for o in gc.get_objects() if type(o) is DistributedDataParallel]


def _is_local_sgd(hook: Any) -> bool:
    return _LOCAL_SGD in getattr(hook, "__name__", "")
