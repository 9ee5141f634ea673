"""Draw faults from a seed: the same seed, names and shapes give the same fault."""

from __future__ import annotations

import random
from fnmatch import fnmatchcase
from math import isqrt
from typing import TYPE_CHECKING

import torch

from everybit.core.boundary import Boundary
from everybit.core.errors import UsageError
from everybit.core.fault import Fault, Pattern, TargetKind
from everybit.inject.memory import check_plain, memory_order
from everybit.inject.targets import Target, list_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from everybit.inject.targets import Holder

#: Elements of a stray write or a strided cluster, where not given, are drawn up to this many.
MAX_DRAWN = 64
#: Rows and columns of a tile, where not given.
TILE = 8


def draw_fault(
    *holders: Holder,
    seed: int,
    pattern: Pattern | str = Pattern.FLIP,
    where: TargetKind | str | None = None,
    num_elements: int | None = None,
    bits: Sequence[int] | None = None,
    stride: int | None = None,
    value: complex | None = None,
    step: int = 0,
    boundary: Boundary | str = Boundary.FORWARD_START,
    last_step: int | None = None,
) -> Fault:
    """Draw one fault; each tensor is equally likely, however small.

    It uses a generator of its own: no global random stream moves.

    Args:
        holders: Modules, optimizers, or mappings of names to tensors.
        seed: Two calls with the same seed and the same names, shapes and dtypes give the same
            fault.
        pattern: The shape of the damage.
        where: A `TargetKind`, or a shell pattern over addresses (`fc.weight`, `*:exp_avg_sq`);
            None: any weight, buffer or optimizer state.
        num_elements: How many elements; drawn where None (1 for `flip`, `multi-bit` and `stuck`).
        bits: The bits hit in each element, from the least significant; drawn where None.
        stride: Of `strided`: every how-many-th element in memory order; drawn where None.
        value: Of `stray-write` and `stuck`: what the element becomes. With `bits` as well, 0 or
            1: what those bits become.
        step: See `Fault.step`.
        boundary: See `Fault.boundary`.
        last_step: See `Fault.last_step`.

    Raises:
        UsageError: No tensor matches, or what is asked for does not fit the tensor drawn.
    """
    pattern = Pattern(pattern)
    target = _choose(list_targets(*holders), where, rng := random.Random(seed))
    tensor = target.value
    width = 8 * tensor.element_size()
    if bits is not None and (not bits or not all(0 <= bit < width for bit in bits)):
        raise UsageError(
            f"bits {list(bits)} of {target.address}",
            todo=f"its elements have bits 0 to {width - 1}",
        )
    elements = draw_elements(tensor, pattern, num_elements, stride, rng, target.address)
    masks, values = draw_marks(tensor, pattern, bits, value, len(elements), rng)
    order = sorted(range(len(elements)), key=elements.__getitem__)
    return Fault(
        kind=TargetKind.GRADIENT if where is TargetKind.GRADIENT else target.kind,
        parameter=target.parameter,
        module=target.module,
        tensor=target.tensor,
        optimizer=target.optimizer,
        pattern=pattern,
        elements=tuple(elements[i] for i in order),
        masks=tuple(masks[i] for i in order),
        values=tuple(values[i] for i in order) if values else (),
        step=step,
        boundary=Boundary(boundary),
        last_step=last_step,
        seed=seed,
    )


def _choose(targets: list[Target], where: TargetKind | str | None, rng: random.Random) -> Target:
    if where is TargetKind.GRADIENT:
        # Gradients come and go; their shape and dtype are those of what they belong to.
        targets = [
            target
            for target in targets
            if target.kind is TargetKind.WEIGHT and target.value.requires_grad
        ]
    elif isinstance(where, TargetKind):
        targets = [target for target in targets if target.kind is where]
    elif where is not None:
        targets = [target for target in targets if fnmatchcase(target.address, where)]
    targets = [target for target in targets if target.value.numel()]
    if not targets:
        raise UsageError(
            f"no tensor with elements to plant a fault in (where = {where or 'any'})",
            todo="optimizer state exists from the first update on; `list_targets` lists all names",
        )
    target = rng.choice(targets)
    check_plain(target.value)
    return target


def draw_elements(
    tensor: Tensor,
    pattern: Pattern,
    count: int | None,
    stride: int | None,
    rng: random.Random,
    address: str,
) -> list[int]:
    """Draw the elements that a pattern hits: flat row-major indices, in no order.

    Raises:
        UsageError: So many do not fit the tensor.
    """
    if pattern is Pattern.TILE and tensor.dim() > 1:
        return _tile(tensor, count, rng)
    total = tensor.numel()
    step = 1
    if count is None:
        few = pattern in (Pattern.FLIP, Pattern.MULTI_BIT, Pattern.STUCK)
        count = 1 if few else min(total, rng.randint(2, MAX_DRAWN))
    if pattern is Pattern.STRIDED:
        step = stride or rng.choice((2, 4, 8, 16, 32))
        if stride is None:  # a small tensor takes a smaller drawn stride, never a smaller asked one
            step = max(1, min(step, (total - 1) // max(1, count - 1)))
    span = (count - 1) * step + 1
    if count < 1 or span > total:
        raise UsageError(
            f"{count} elements at stride {step} do not fit {address} with its {total}",
            todo="ask for fewer",
        )
    if pattern not in (Pattern.FLIP, Pattern.MULTI_BIT, Pattern.STUCK):
        start = rng.randrange(total - span + 1)
        positions = list(range(start, start + span, step))
    else:
        positions = rng.sample(range(total), count)
    # Clusters are clusters in memory, whatever the strides.
    return [memory_order(tensor, position) for position in positions]


def _tile(tensor: Tensor, count: int | None, rng: random.Random) -> list[int]:
    """Draw a block of the last two dimensions, as square as they allow."""
    height, width = tensor.shape[-2:]
    side = TILE if count is None else max(1, isqrt(count))
    rows, columns = min(side, height), min(side, width)
    matrix = rng.randrange(tensor.numel() // (height * width)) * height * width
    top, left = rng.randrange(height - rows + 1), rng.randrange(width - columns + 1)
    return [
        matrix + (top + row) * width + left + column
        for row in range(rows)
        for column in range(columns)
    ]


def draw_marks(
    tensor: Tensor,
    pattern: Pattern,
    bits: Sequence[int] | None,
    value: complex | None,
    count: int,
    rng: random.Random,
) -> tuple[list[int], list[int]]:
    """Draw what happens to each of `count` elements: masks, and values or none, as in `Fault`."""
    width = 8 * tensor.element_size()
    full = (1 << width) - 1
    if pattern in (Pattern.ZERO, Pattern.STALE):
        if bits is not None or value is not None:
            raise UsageError(f"bits or a value with pattern {pattern}", todo="give neither")
        return [full] * count, [0] * count if pattern is Pattern.ZERO else []
    if pattern in (Pattern.STRAY_WRITE, Pattern.STUCK):
        if bits is not None or (pattern is Pattern.STUCK and value is None):
            mask = _mask(bits) if bits is not None else 1 << rng.randrange(width)
            level = rng.randrange(2) if value is None else value
            if level not in (0, 1):
                raise UsageError(f"value {value} of single bits", todo="bits become 0 or 1")
            return [mask] * count, [mask if level else 0] * count
        if value is not None:
            return [full] * count, [_encode(tensor, value)] * count
        return [full] * count, [rng.getrandbits(width) for _ in range(count)]
    if value is not None:
        raise UsageError(f"value with pattern {pattern}", todo="it inverts bits; use stuck")
    if bits is not None:
        return [_mask(bits)] * count, []
    if pattern is Pattern.FLIP:
        return [1 << rng.randrange(width) for _ in range(count)], []
    num_bits = rng.randint(2, min(8, width))
    if pattern is Pattern.STRIDED:
        return [_mask(rng.sample(range(width), rng.choice((1, num_bits))))] * count, []
    return [_mask(rng.sample(range(width), num_bits)) for _ in range(count)], []


def _mask(bits: Sequence[int]) -> int:
    return sum(1 << bit for bit in set(bits))


def _encode(tensor: Tensor, value: complex) -> int:
    plain = value.real if isinstance(value, complex) and not tensor.is_complex() else value
    try:
        element = torch.tensor([plain], device="cpu").to(tensor.dtype)
    except (RuntimeError, TypeError, OverflowError) as error:
        raise UsageError(
            f"{value} as {tensor.dtype} ({error})", todo="give a number it can hold"
        ) from None
    return int.from_bytes(element.view(torch.uint8).numpy().tobytes(), "little")
