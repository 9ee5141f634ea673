"""A convolution's outputs, a few of them, computed again in float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Outputs of one convolution that are computed again.
NUM_SAMPLED: Final = 32


def sampled_distance(
    inputs: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    outputs: torch.Tensor,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    seed: int,
) -> torch.Tensor:
    """Return how far sampled outputs of a convolution are off, in units of their bound.

    The bound is the componentwise one of an inner product of n terms (Higham, Accuracy and
    Stability of Numerical Algorithms, 3.1), with sqrt(n) for n, plus a rounding of the output:
    `4 v sqrt(n) sum |x| |w| + u |y|`.

    Args:
        inputs: Shape `(batch, in_channels, *spatial)`.
        weight: Shape `(out_channels, in_channels / groups, *kernel)`.
        bias: Shape `(out_channels,)`, or None.
        outputs: Shape `(batch, out_channels, *spatial_out)`.
        stride: One number for each spatial dimension; so for padding and dilation.
        padding: See `stride`.
        dilation: See `stride`.
        groups: Of channels.
        seed: Which outputs are sampled.

    Returns:
        Shape `(NUM_SAMPLED,)` or less, float64.
    """
    generator = torch.Generator().manual_seed(seed)
    count = min(NUM_SAMPLED, outputs.numel())
    flat = torch.randint(0, outputs.numel(), (count,), generator=generator)
    distances = []
    unit = torch.finfo(outputs.dtype).eps / 2
    inner = unit if outputs.dtype == torch.float64 else torch.finfo(torch.float32).eps / 2
    for index in flat.tolist():
        place = _unravel(index, outputs.shape)
        patch, kernel = _terms(
            inputs, weight, place, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
        products = patch.double() * kernel.double()
        right = products.sum()
        size = products.abs().sum()
        if bias is not None:
            right = right + bias[place[1]].double()
            size = size + bias[place[1]].double().abs()
        found = outputs[place].double()
        terms = math.sqrt(max(1, products.numel()))
        bound = 4 * inner * terms * size + unit * right.abs()
        off = (found - right).abs()
        distances.append(torch.where(off == 0, torch.zeros_like(off), off / bound))
    return torch.stack(distances) if distances else torch.zeros(0, dtype=torch.float64)


def _terms(
    inputs: torch.Tensor,
    weight: torch.Tensor,
    place: tuple[int, ...],
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what one output is the inner product of: a patch of the inputs, and its kernel."""
    sample, channel, *spatial = place
    per_group = weight.shape[1]
    group = channel // (weight.shape[0] // groups)
    cut: list[Any] = [sample, slice(group * per_group, (group + 1) * per_group)]
    of_kernel: list[Any] = [channel, slice(None)]
    for axis, position in enumerate(spatial):
        start = position * stride[axis] - padding[axis]
        taps = weight.shape[2 + axis]
        low = max(0, -(start // dilation[axis]) if start < 0 else 0)
        high = max(low, min(taps, -((start - inputs.shape[2 + axis]) // dilation[axis])))
        begin = start + low * dilation[axis]
        cut.append(slice(begin, begin + (high - low) * dilation[axis], dilation[axis]))
        of_kernel.append(slice(low, high))
    return inputs[tuple(cut)], weight[tuple(of_kernel)]


def _unravel(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    place = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        place.append(rest)
    return tuple(reversed(place))
