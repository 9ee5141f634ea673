"""Tensors of the program's own in the memory of a watched one, whose writes nothing counts."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from everybit.guard.sharing import span_of
from everybit.probe.memory import storage_address, version, why_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def find_strangers(
    tensors: Sequence[torch.Tensor],
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield `(tensor, stranger)` for what lies in a tensor's memory under a counter of its own.

    A flat buffer whose pieces were made parameters or gradients through `.data` is such a
    stranger. Views and `detach()` share the counter and are none. Looks through all live objects
    (about 0.1 s in a large process): for when damage was found.

    Args:
        tensors: Those that are watched; ones of other classes are left out.
    """
    spans = [(*span_of(tensor), tensor) for tensor in tensors if type(tensor) in _PLAIN]
    if not spans:
        return
    live = [other for other in gc.get_objects() if type(other) in _PLAIN]
    # FSDP writes its flat parameters by collectives, which are known.
    flat = {storage_address(other) for other in live if getattr(other, "_is_flat_param", False)}
    for other in live:
        if why_unreadable(other) or storage_address(other) in flat - {0}:
            continue
        first, last = span_of(other)
        for start, end, tensor in spans:
            overlap = first < end and start < last and other is not tensor
            if overlap and not shares_counter(tensor, other):
                yield tensor, other


def shares_counter(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors share one version counter: a write to one shows in both."""
    if version(tensor) != version(other) or tensor.is_inference() or other.is_inference():
        return False
    with _unsafe_preserve_version_counter(tensor):
        torch.autograd.graph.increment_version(tensor)
        return version(tensor) == version(other)
