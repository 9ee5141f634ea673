"""Plant a fault, remember exactly what changed, and take it back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everybit.core.change import Change, changes_between, evidence_of
from everybit.core.errors import UsageError
from everybit.core.fault import Pattern
from everybit.core.finding import Location, place_elements
from everybit.core.link import Link
from everybit.inject.memory import aliases_itself, read_elements, write_elements
from everybit.inject.targets import find_target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from everybit.core.fault import Fault
    from everybit.inject.targets import Holder, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What taking a fault back did.

    Attributes:
        restored: Elements put back to the bits from before.
        left: Elements left alone, because somebody has rewritten them (or replaced the tensor)
            since.
    """

    restored: int
    left: int


class Injection:
    """A planted fault: the exact truth about what it changed, and the way back.

    Attributes:
        fault: What was planted.
        where: The place, with the elements whose bits did change.
        changes: Each changed element, with its value before and after and the bits that differ.
            Empty where the memory held the forced bits already.
    """

    def __init__(
        self, fault: Fault, target: Target, changes: tuple[Change, ...], step: int | None = None
    ) -> None:
        self.fault = fault
        self.changes = changes
        self.where = Location(
            parameter=target.parameter,
            module=target.module or None,
            tensor=target.tensor or None,
            optimizer=target.optimizer or None,
            step=fault.step if step is None else step,
            link=fault.where.link or Link.STATE,
            **place_elements(change.element for change in changes),
        )
        self._tensor = target.value
        self._memory = _identity(target.value)
        # Holding the storage keeps its address from being given to somebody else.
        self._storage = target.value.untyped_storage()
        self._before: list[bytes] = []
        self._after: list[bytes] = []

    def undo(self, *, force: bool = False) -> Undone:
        """Put back every element that still holds the damage, bit for bit.

        An element that was rewritten since (by an optimizer, a heal, a load) belongs to its
        writer and is left alone, and so is everything where the tensor's memory was replaced. A
        second call finds nothing to do.

        Args:
            force: Put back rewritten elements too. Never writes into memory that was replaced.
        """
        elements = [change.element for change in self.changes]
        if not elements:
            return Undone(restored=0, left=0)
        if _identity(self._tensor) != self._memory:
            return Undone(restored=0, left=len(elements))
        found = read_elements(self._tensor, elements)
        put = [
            i
            for i, now in enumerate(found)
            if now != self._before[i] and (force or now == self._after[i])
        ]
        write_elements(self._tensor, [elements[i] for i in put], [self._before[i] for i in put])
        right = sum(now == before for now, before in zip(found, self._before, strict=True))
        return Undone(restored=len(put), left=len(elements) - len(put) - right)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data: the fault, the place, and the changes."""
        return {
            "fault": self.fault.to_json(),
            "where": self.where.to_json(),
            **evidence_of(self.changes),
        }


def apply(fault: Fault, *holders: Holder, step: int | None = None) -> Injection:
    """Write a fault into memory, past every version counter.

    Args:
        fault: What to plant; its timing is the caller's business.
        holders: Modules, optimizers, or mappings of names to tensors.
        step: The step to tell in `Injection.where`; the fault's own by default.

    Raises:
        UsageError: No such tensor or element, or memory that cannot be written; nothing is
            changed then.
    """
    if fault.pattern is Pattern.STALE and not fault.values:
        raise UsageError(
            "a stale fault whose earlier bits nobody has read",
            todo="use a Campaign: it reads them in the step before",
        )
    target = find_target(fault, *holders)
    tensor = target.value
    dtype = str(tensor.dtype).removeprefix("torch.")
    size = tensor.element_size()
    # Where elements share memory, one write changes several of them: compare them all.
    watched = list(range(tensor.numel())) if aliases_itself(tensor) else list(fault.elements)
    new = [
        fault.damage(position, int.from_bytes(old, "little")) & (1 << 8 * size) - 1
        for position, old in enumerate(read_elements(tensor, fault.elements))
    ]
    before = read_elements(tensor, watched)
    write_elements(tensor, fault.elements, [word.to_bytes(size, "little") for word in new])
    after = read_elements(tensor, watched)
    changes, old_bytes, new_bytes = [], [], []
    for element, old, now in zip(watched, before, after, strict=True):
        if old != now:
            changes += changes_between(dtype, old, now, element)
            old_bytes.append(old)
            new_bytes.append(now)
    injection = Injection(fault, target, tuple(changes), step)
    injection._before, injection._after = old_bytes, new_bytes
    return injection


@contextmanager
def planted(fault: Fault, *holders: Holder) -> Iterator[Injection]:
    """Plant a fault for a `with` block; what still holds the damage is put back on exit."""
    injection = apply(fault, *holders)
    try:
        yield injection
    finally:
        injection.undo()


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    return (
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
        tensor.device,
    )
