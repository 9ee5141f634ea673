"""Whether each tensor of a file is whole, and what stands witness for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.checks.checksums import Checksums
    from everybit.files.structure import Structure
    from everybit.files.tensor import FileTensor
    from everybit.files.values.judging import Judged


class Witness(StrEnum):
    """What says that a tensor is whole, the best first."""

    DIGEST = "digest"
    CHECKSUM = "checksum"
    NOTHING_AGAINST = "nothing against it"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Whether one tensor is whole.

    Attributes:
        tensor: The tensor.
        witness: What says that it is; None where it is lost.
        why: Why it is lost; empty where it is whole.
        doubt: What is odd about it all the same.
    """

    tensor: FileTensor
    witness: Witness | None = None
    why: str = ""
    doubt: str = ""


def states_of(
    structure: Structure, checksums: Checksums, judged: Judged, size_bytes: int
) -> list[State]:
    """Return the state of every tensor of a file without a seal, in the structure's order.

    A checksum that holds outweighs odd values: they were saved so. Zeros of a lost write may have
    been saved so too, and are no values of the tensor all the same.

    Args:
        structure: The file's structure.
        checksums: Of its members.
        judged: Its values.
        size_bytes: Its size.
    """
    failed = {member.name for member in checksums.failed}
    skipped = {item.what for item in checksums.skipped}
    holes = {t.name for hole in judged.holes for t in (*hole.cut, *hole.covered)}
    odd = {name: "it holds values that are not finite" for one in judged.nonfinite
           for name in one.span.names}  # fmt: skip
    odd |= {name: "it holds implausible values" for one in judged.implausible
            for name in one.span.names}  # fmt: skip
    named = {d.where.tensor: d.message for d in structure.damages if d.where.tensor}
    garbled = _garbled_roots(checksums)
    states = []
    for tensor in structure.tensors:
        member = tensor.member
        held = member in checksums.held
        why = doubt = ""
        if tensor.unreadable:
            why = tensor.unreadable
        elif any(end > size_bytes for _, end in tensor.byte_ranges):
            why = "the file ends before it does"
        elif member in failed:
            why = f"member {member} fails its checksum"
        elif member is not None and member in skipped:
            why = f"member {member} cannot be read"
        elif tensor.name in holes:
            why = "a run of zeros lies in it where a write was lost"
        elif tensor.name in named:
            why = named[tensor.name]
        elif member is not None and member.startswith(garbled):
            why = "the pickle record that names and places it fails its checksum"
        elif tensor.name in odd and not held:
            why = odd[tensor.name]
        else:
            doubt = odd.get(tensor.name, "")
        witness = Witness.CHECKSUM if held else Witness.NOTHING_AGAINST
        states.append(State(tensor=tensor, witness=None if why else witness, why=why, doubt=doubt))
    return states


def _garbled_roots(checksums: Checksums) -> tuple[str, ...]:
    """Return the folders in the archive whose pickle record is damaged beyond one known bit."""
    return tuple(
        record.removesuffix("data.pkl")
        for record in checksums.failed_pickles
        if record not in checksums.damages
        or "explained_by" not in checksums.damages[record].evidence
    )


def list_states(states: Sequence[State], limit: int) -> dict[str, object]:
    """Return the states as evidence of a finding: how many are what, and the first by name."""
    groups = {
        "lost": [state for state in states if state.witness is None],
        "whole_by_checksum": [s for s in states if s.witness is Witness.CHECKSUM],
        "nothing_against": [s for s in states if s.witness is Witness.NOTHING_AGAINST],
    }
    found: dict[str, object] = {}
    for key, members in groups.items():
        if members:
            found[key] = [state.tensor.name for state in members[:limit]]
            found[f"num_{key}"] = len(members)
    return found
