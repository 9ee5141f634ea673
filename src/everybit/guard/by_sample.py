"""Outputs by sample: a batch of answers is recorded as one digest each, where it is a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from everybit.core.observation import sample_entry
from everybit.probe.digest import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Samples of a batch that get a digest each; a larger batch is recorded as a whole.
MAX_SAMPLES = 1024


def by_sample(values: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return `(name, value)` of outputs, tensors of a batch as `name[0]`, `name[1]` ...

    The batch is the first dimension, where every output tensor on the CPU that has one agrees on
    its size. On accelerators an output is recorded as a whole: a digest each would cost a launch
    each.

    Args:
        values: What the model returned, by dotted path.
    """
    tensors = [value for _, value in values if isinstance(value, torch.Tensor)]
    if any(tensor.device.type != "cpu" or not readable(tensor) for tensor in tensors):
        return list(values)
    sizes = {tensor.shape[0] for tensor in tensors if tensor.dim()}
    if len(sizes) != 1 or not 1 < next(iter(sizes)) <= MAX_SAMPLES:
        return list(values)
    named: list[tuple[str, Any]] = []
    for name, value in values:
        if isinstance(value, torch.Tensor) and value.dim():
            rows = value.detach().unbind()
            named += [(sample_entry(name, index), row) for index, row in enumerate(rows)]
        else:
            named.append((name, value))
    return named
