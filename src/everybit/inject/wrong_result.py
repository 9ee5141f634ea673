"""Make a computed tensor wrong, as the kernel that wrote it would have, and tell exactly how."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from everybit.core.change import Change, changes_between, evidence_of
from everybit.core.fault import Fault, Pattern, TargetKind
from everybit.core.finding import Location, place_elements
from everybit.inject.draw import draw_elements, draw_marks
from everybit.inject.memory import aliases_itself, read_elements, write_elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.computed_fault import ComputedFault

#: A lost write that is told nothing else leaves so many elements as they were.
MAX_STALE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One wrong result: the exact truth about it.

    Attributes:
        fault: What was asked for.
        where: Step, link, module, parameter, and the elements whose bits did change.
        changes: Each changed element, with its right value, the wrong one and the bits that differ.
            Empty where the right result held the forced bits already.
        call: Which call of the module in its step it was, from 0; repeated ones count.
        dtype: Of the tensor hit.
        shape: Of the tensor hit.
    """

    fault: ComputedFault
    where: Location
    changes: tuple[Change, ...]
    call: int
    dtype: str
    shape: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data: the fault, the place, and the changes."""
        return {
            "fault": self.fault.to_json(),
            "where": self.where.to_json(),
            "call": self.call,
            "dtype": self.dtype,
            "shape": list(self.shape),
            **evidence_of(self.changes),
        }


def tensors_in(result: Any) -> list[Tensor]:
    """Return the tensors with elements of a nest of tuples, lists, dictionaries and the like."""
    return [x for x in pytree.tree_leaves(result) if isinstance(x, Tensor) and x.numel()]


def choose(fault: ComputedFault, tensors: Sequence[Tensor]) -> int | None:
    """Return which of several tensors a fault hits; None where there is none of that number."""
    if not tensors:
        return None
    if fault.tensor is not None:
        return fault.tensor if fault.tensor < len(tensors) else None
    return random.Random(f"{fault.seed} tensor").randrange(len(tensors))


def concrete(fault: ComputedFault, tensor: Tensor) -> Fault:
    """Draw the elements and bits of a fault for a tensor that is there.

    The same seed, shape, strides and dtype give the same elements and bits.

    Raises:
        UsageError: The bits asked for are not those of the dtype.
    """
    rng = random.Random(fault.seed)
    pattern = fault.pattern
    count, stride = fault.num_elements, fault.stride
    if count is None and pattern is Pattern.STALE:
        count = MAX_STALE
    if count is not None and pattern is not Pattern.TILE:
        count = min(count, tensor.numel())
        if stride is not None:
            stride = max(1, min(stride, (tensor.numel() - 1) // max(1, count - 1)))
    elements = draw_elements(tensor, pattern, count, stride, rng, fault.module or "the root")
    bits = None
    if fault.bits is not None:
        bits = [bit for bit in fault.bits if bit < 8 * tensor.element_size()] or [0]
    masks, values = draw_marks(tensor, pattern, bits, None, len(elements), rng)
    order = sorted(range(len(elements)), key=elements.__getitem__)
    return Fault(
        kind=TargetKind.WEIGHT,
        parameter=fault.parameter,
        pattern=pattern,
        elements=tuple(elements[i] for i in order),
        masks=tuple(masks[i] for i in order),
        values=tuple(values[i] for i in order) if values else (),
    )


def spoil(
    fault: ComputedFault, tensor: Tensor, earlier: Tensor | None = None
) -> tuple[Change, ...]:
    """Overwrite the drawn elements in the tensor's own memory, past every counter.

    Args:
        fault: What to do.
        tensor: The result, right so far; any dtype, strides and device.
        earlier: For `stale`: the same result of the step before, of the same shape and dtype.

    Returns:
        Each element whose bits did change.

    Raises:
        UsageError: The tensor has no plain memory of its own.
    """
    tensor = tensor.detach()
    drawn = concrete(fault, tensor)
    size = tensor.element_size()
    watched = list(range(tensor.numel())) if aliases_itself(tensor) else list(drawn.elements)
    found = read_elements(tensor, drawn.elements)
    if fault.pattern is Pattern.STALE:
        new = found if earlier is None else read_elements(earlier, drawn.elements)
    else:
        new = [
            (drawn.damage(i, int.from_bytes(old, "little")) & (1 << 8 * size) - 1).to_bytes(
                size, "little"
            )
            for i, old in enumerate(found)
        ]
    before = read_elements(tensor, watched)
    write_elements(tensor, drawn.elements, new)
    after = read_elements(tensor, watched)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return tuple(
        change
        for element, old, now in zip(watched, before, after, strict=True)
        for change in changes_between(dtype, old, now, element)
    )


def spoiled(fault: ComputedFault, tensor: Tensor) -> tuple[Tensor, tuple[Change, ...]]:
    """Return a wrong copy of a tensor that others may hold as well, and how it differs."""
    copy = tensor.detach().clone()
    changes = spoil(fault, copy)
    return copy, changes


def hit(
    fault: ComputedFault,
    tensor: Tensor,
    changes: tuple[Change, ...],
    *,
    step: int,
    call: int,
    parameter: str = "",
) -> Hit:
    """Return the record of a wrong result."""
    return Hit(
        fault=fault,
        where=Location(
            step=step,
            link=fault.link,
            rank=fault.rank,
            module=fault.module or None,
            parameter=parameter or fault.parameter or None,
            **place_elements(change.element for change in changes),
        ),
        changes=changes,
        call=call,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
    )


def memory_of(tensor: Tensor) -> int:
    """Return the address of a tensor's storage: two that share one share damage."""
    return int(tensor.untyped_storage().data_ptr())


def spoil_rng(fault: ComputedFault) -> tuple[Tensor, tuple[Change, ...]]:
    """Invert bits of the state of torch's generator on the CPU; return the state and how."""
    state = torch.get_rng_state()
    # The words of the Mersenne Twister lie behind 24 bytes of seed, position and flags.
    # Each has 32 bits in a place of 64.
    words = state[24 : 24 + 624 * 8].view(torch.int32)[::2]
    changes = spoil(fault, words)
    torch.set_rng_state(state)
    return words, changes
