"""Single elements that the class of their tensor does not account for: differences of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.dtype import json_number
from everybit.diff.classes import DifferenceClass
from everybit.diff.difference import Difference
from everybit.diff.measure import NUM_LISTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.diff.measure import Measured

_C = DifferenceClass


def standing_out(out: Difference, m: Measured) -> Difference | None:
    """Return the values far from the rest, in a tensor that else moved as a whole."""
    if out.found not in (_C.TRAINING, _C.ROUNDING) or not 0 < m.num_wild <= NUM_LISTED:
        return None
    rest = "moved a little" if out.found is _C.TRAINING else "differs by rounding"
    if len(m.leaps) == m.num_wild == 1:
        leap = m.leaps[0]
        found = _apart(
            out,
            m.wild,
            f"element {leap.element}, {leap.before:.9g} in A and {leap.after:.9g} in B, changed "
            f"{leap.times:.3g} times as much as any other, as by a flip of bit {leap.bit}, while "
            f"the rest {rest}",
        )
        found.evidence["bit"] = leap.bit
        return found
    what = "one value" if m.num_wild == 1 else f"{m.num_wild} values"
    far = "far outside what the rest of the tensor holds"
    if m.leaps:
        far = "changed many times as much as any other, as by flipped bits"
    return _apart(out, m.wild, f"{what} of B {far}, while the rest {rest}")


def exceptions(out: Difference, m: Measured) -> list[Difference]:
    """Return the few elements that a round trip does not account for."""
    if out.found not in (_C.ROUNDED, _C.OVERFLOW) or not m.roundings:
        return []
    apart = m.roundings[0].exceptions
    if not apart:
        return []
    element, before, after = apart[0]
    what = (
        f"element {element}, {before:.9g} in A and {after:.9g} in B, is not"
        if len(apart) == 1
        else f"{len(apart)} elements are not"
    )
    return [_apart(out, apart, f"{what} what rounding gives, while every other one is")]


def _apart(out: Difference, values: Sequence[tuple[int, float, float]], why: str) -> Difference:
    changes = [
        {"element": element, "before": json_number(before), "after": json_number(after)}
        for element, before, after in values
    ]
    single = len(changes) == 1
    return Difference(
        name=out.name,
        a=out.a,
        b=out.b,
        found=_C.ELEMENT if single else _C.RUN,
        why=why,
        evidence={**(changes[0] if single else {}), "changes": changes},
        elements=tuple(element for element, _, _ in values),
    )
