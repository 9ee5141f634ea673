"""Changed elements: what differs between two copies of the same tensor bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everybit.core.dtype import ITEMSIZE, Number, decode, json_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: More changed elements than this are told as ranges.
MAX_LISTED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One element whose bits differ.

    Attributes:
        element: Flat row-major index in the tensor.
        before: The value that should be there.
        after: The value found.
        bits: The flipped bits, counted from the least significant bit of the element.
    """

    element: int
    before: Number
    after: Number
    bits: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the form used in a finding's evidence."""
        return {
            "element": self.element,
            "before": json_number(self.before),
            "after": json_number(self.after),
            "bits": list(self.bits),
        }


def changes_between(
    dtype: str, before: bytes, after: bytes, first_element: int = 0
) -> list[Change]:
    r"""Compare two equally long runs of little-endian elements.

    Args:
        dtype: Canonical dtype name.
        before: The right bytes, a whole number of elements.
        after: The bytes found, as long as `before`.
        first_element: Flat index of the first element in them.

    Returns:
        One `Change` for each element whose bits differ, in order.

    >>> changes_between("int16", b"\x00\x00\x05\x00", b"\x00\x00\x04\x80", 10)
    [Change(element=11, before=5, after=-32764, bits=(0, 15))]
    """
    if len(before) != len(after):
        raise ValueError(f"compared runs differ in length: {len(before)} and {len(after)} bytes")
    size = ITEMSIZE[dtype]
    changes: list[Change] = []
    if before == after:
        return changes
    for start in range(0, len(before), size):
        old, new = before[start : start + size], after[start : start + size]
        if old != new:
            flipped = int.from_bytes(old, "little") ^ int.from_bytes(new, "little")
            changes.append(
                Change(
                    element=first_element + start // size,
                    before=decode(dtype, old),
                    after=decode(dtype, new),
                    bits=tuple(bit for bit in range(8 * size) if flipped >> bit & 1),
                )
            )
    return changes


def as_ranges(elements: Iterable[int]) -> list[tuple[int, int]]:
    """Fold indices into sorted, disjoint `[start, end)` ranges.

    >>> as_ranges([7, 3, 4, 5])
    [(3, 6), (7, 8)]
    """
    ranges: list[tuple[int, int]] = []
    for element in sorted(set(elements)):
        if ranges and ranges[-1][1] == element:
            ranges[-1] = (ranges[-1][0], element + 1)
        else:
            ranges.append((element, element + 1))
    return ranges


def evidence_of(changes: Sequence[Change]) -> dict[str, Any]:
    """Return the evidence entries for changed elements: the first few in full, and how many."""
    evidence: dict[str, Any] = {
        "num_elements": len(changes),
        "num_bits": sum(len(change.bits) for change in changes),
        "changes": [change.to_json() for change in changes[:MAX_LISTED]],
    }
    return evidence
