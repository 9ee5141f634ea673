"""Numbers of tensors, cheaply: norms, minima and samples in few launches, and no sync.

What is on an accelerator stays there: a `Reading` says which bits the readout of the step has to
bring, and turns them into numbers afterwards. On the CPU the numbers are there at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from everybit.probe.memory import is_dense

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Elements sampled of each parameter, to tell how far an update moved it.
SAMPLE = 512

_NARROW = (torch.float16, torch.bfloat16)
_WIDE = (torch.float32, torch.float64)


@dataclass(slots=True)
class Reading:
    """Numbers that were measured, one a tensor; those on accelerators are still there.

    Attributes:
        values: Those on the host; where `words_wanted` is not empty, complete after `fill` only.
        words_wanted: 0-d int64 tensors for the readout.
    """

    values: list[float]
    words_wanted: list[torch.Tensor] = field(default_factory=list)
    _places: list[int] = field(default_factory=list)

    def put(self, places: Sequence[int], numbers: torch.Tensor) -> None:
        """Take numbers (one dimension, float32 or float64) for some of the tensors."""
        if on_host(numbers):
            for place, value in zip(places, numbers.tolist(), strict=True):
                self.values[place] = value
        else:
            words = numbers.to(torch.float32).view(torch.int32).to(torch.int64)
            self.words_wanted += words.unbind()
            self._places += places

    def fill(self, words: Sequence[int]) -> list[float]:
        """Take what the readout brought; return all numbers."""
        for place, word in zip(self._places, words, strict=True):
            self.values[place] = float(np.uint32(word % (1 << 32)).view(np.float32))
        self.words_wanted, self._places = [], []
        return self.values


def on_host(tensor: torch.Tensor) -> bool:
    """Whether reading the tensor's values is no sync."""
    return tensor.device.type == "cpu"


@torch.no_grad()
def read_norms(tensors: Sequence[torch.Tensor | None], absent: float) -> Reading:
    """Measure the L2 norm of each tensor; `absent` for None and for what has none.

    Norms of half precision are accumulated in float32. A norm that overflows is infinite though
    every element is finite: `count_bad` tells.
    """
    reading = Reading([absent] * len(tensors))
    buckets: dict[tuple[torch.device, torch.dtype], tuple[list[int], list[torch.Tensor]]] = {}
    for place, tensor in enumerate(tensors):
        plain = None if tensor is None else plain_values(tensor)
        if plain is not None:
            places, members = buckets.setdefault((plain.device, plain.dtype), ([], []))
            places.append(place)
            members.append(plain)
    for (_, dtype), (places, members) in buckets.items():
        norms = (
            torch._foreach_norm(members, 2, dtype=torch.float32)
            if dtype in _NARROW
            else torch._foreach_norm(members)
        )
        reading.put(places, torch.stack(norms))
    return reading


def with_known(
    tensors: Sequence[torch.Tensor | None], known: Sequence[float | None], absent: float
) -> Reading:
    """Measure the norms that are not known; as `read_norms` else."""
    rest = [t if norm is None else None for t, norm in zip(tensors, known, strict=True)]
    reading = read_norms(rest, absent)
    for place, norm in enumerate(known):
        if norm is not None:
            reading.values[place] = norm
    return reading


def plain_values(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the real floating point values a tensor holds here, None where it has none.

    Of a DTensor that is the local shard, of a sparse tensor its values.
    """
    local = getattr(tensor, "_local_tensor", None)
    if isinstance(local, torch.Tensor):
        tensor = local
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        if tensor.layout is not torch.sparse_coo:
            return None
        tensor = tensor._values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype not in _NARROW and tensor.dtype not in _WIDE:
        return None
    return None if tensor.is_meta or tensor.is_nested else tensor


def _norm_dtype(plain: torch.Tensor) -> torch.dtype:
    return torch.float32 if plain.dtype in _NARROW else plain.dtype


@torch.no_grad()
def count_bad(tensor: torch.Tensor) -> tuple[int, str, int]:
    """Return how many elements are not finite, the kind of the first, and its flat index.

    Exact, and a sync on accelerators. The kind is `nan`, `inf` or `-inf`; "" with none.
    """
    plain = plain_values(tensor)
    if plain is None or plain.numel() == 0:
        return 0, "", -1
    # A twentieth of the cost, and where the norm is finite every element is.
    if math.isfinite(float(torch.linalg.vector_norm(plain, dtype=_norm_dtype(plain)))):
        return 0, "", -1
    bad = ~torch.isfinite(plain).reshape(-1)
    num_bad = int(bad.sum())
    if not num_bad:
        return 0, "", -1
    first = int(bad.to(torch.uint8).argmax())
    value = float(plain.reshape(-1)[first])
    return num_bad, "nan" if math.isnan(value) else "inf" if value > 0 else "-inf", first


def sample_view(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a view of up to about `SAMPLE` evenly spread elements; None where there are none."""
    plain = plain_values(tensor)
    if plain is None or plain.numel() == 0 or not is_dense(plain):
        return None
    # In memory order, with an odd stride: an even one would walk along a column of a matrix.
    stride = max(1, plain.numel() // SAMPLE) | 1
    return plain.as_strided((plain.numel(),), (1,))[::stride]


def sample_scale(tensor: torch.Tensor, sample: torch.Tensor) -> float:
    """Return what a norm of a sample is to be multiplied by, to estimate the whole one's."""
    return math.sqrt(tensor.numel() / max(1, sample.numel()))


@torch.no_grad()
def read_each(
    tensors: Sequence[torch.Tensor], measure: Callable[[torch.Tensor], torch.Tensor]
) -> Reading:
    """Measure a number of each tensor with one launch each."""
    reading = Reading([math.nan] * len(tensors))
    by_device: dict[torch.device, list[int]] = {}
    for place, tensor in enumerate(tensors):
        by_device.setdefault(tensor.device, []).append(place)
    for places in by_device.values():
        numbers = [measure(tensors[place]).reshape(()).to(torch.float32) for place in places]
        reading.put(places, torch.stack(numbers))
    return reading
