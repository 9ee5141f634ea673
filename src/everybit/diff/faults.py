"""Damage of a file itself, beside which its tensors can still be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from posixpath import dirname
from typing import TYPE_CHECKING, Any

from everybit.diff.classes import DifferenceClass
from everybit.diff.judge import Group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.diff.difference import Difference

_C = DifferenceClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with one side's file.

    Attributes:
        side: `A` or `B`.
        path: The file, relative to what the user named.
        rule: The rule that `everybit verify` says.
        message: What is wrong, one clause.
        hides_tensors: Its own list of tensors cannot be read, or is not whole.
        evidence: JSON-ready facts.
    """

    side: str
    path: str
    rule: str
    message: str
    hides_tensors: bool = False
    evidence: Mapping[str, Any] = field(default_factory=dict)


def group_faults(faults: Sequence[Fault], groups: list[Group]) -> list[Group]:
    """Return a group for each damaged file, with the tensors that its damage cut off.

    These are taken out of `groups`.
    """
    found = []
    for fault in faults:
        members = []
        for group in groups:
            if group.found is not _C.DAMAGED:
                continue
            taken = [each for each in group.differences if _is_in(each, fault)]
            members += taken
            group.differences = [each for each in group.differences if not _is_in(each, fault)]
        found.append(
            Group(
                found=_C.DAMAGED,
                differences=members,
                why=f"{fault.side}'s file {fault.path} is damaged ({fault.rule}): {fault.message}"
                + (f"; {len(members)} tensors are cut off or lost" if members else ""),
                evidence={
                    **fault.evidence,
                    "side": fault.side,
                    "damaged_by": fault.rule,
                    "path": fault.path,
                },
            )
        )
    groups[:] = [group for group in groups if group.differences or group.found is not _C.DAMAGED]
    return found


def _is_in(each: Difference, fault: Fault) -> bool:
    tensor, other = (each.a, each.b) if fault.side == "A" else (each.b, each.a)
    if tensor is None:
        # Not on its list, so only the other side's folder tells which file should have it.
        return (
            fault.hides_tensors and other is not None and dirname(other.path) == dirname(fault.path)
        )
    return tensor.path == fault.path
