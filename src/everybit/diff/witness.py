"""Which side is right: a file's own checksum over the bytes that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.divergence import DivergenceKind
from everybit.diff.classes import DifferenceClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.diff.judge import Group

_C = DifferenceClass

#: Groups that are looked at; each costs a pass over the bytes of two archive members.
_MAX_ASKED: Final = 64
_ASKED: Final = frozenset(
    {_C.ELEMENT, _C.RUN, _C.PAGE, _C.ZEROS, _C.UNKNOWN, _C.SIGN, _C.SCALE, _C.SWAPPED}
)


def ask_checksums(groups: Sequence[Group]) -> None:
    """Add to the groups what the files' own checksums say about the bytes that differ."""
    asked = [group for group in groups if group.found in _ASKED and group.differences]
    for group in asked[:_MAX_ASKED]:
        each = group.differences[0]
        said = {}
        for side, tensor in (("a", each.a), ("b", each.b)):
            if tensor is not None and tensor.vouch is not None:
                holds = tensor.vouch()
                if holds is not None:
                    said[side] = holds
        for side, holds in said.items():
            group.evidence[f"checksum_{side}"] = "holds" if holds else "fails"
        wrong = [side.upper() for side, holds in said.items() if not holds]
        if not wrong:
            continue
        group.evidence["kind"] = str(DivergenceKind.CORRUPTION)
        group.evidence["damaged_side"] = " and ".join(wrong)
        right = "B" if wrong == ["A"] else "A"
        if len(wrong) == 1 and said.get(right.lower()):
            group.why += f"; {wrong[0]}'s own checksum fails there and {right}'s holds"
        else:
            group.why += f"; the checksum of {' and '.join(wrong)} fails there"
