"""The whole comparison of two models: one headline, the groups, and a table by tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import json_number
from everybit.diff.classes import MEANING, ORDER, DifferenceClass, Meaning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.diff.difference import Difference
    from everybit.diff.judge import Group
    from everybit.diff.matching import Matching

_C = DifferenceClass

#: Rows of the table by tensor; the groups count the rest.
MAX_ROWS: Final = 100_000

#: The gravest first, for a headline.
_GRAVITY: Final = (
    Meaning.DAMAGE,
    Meaning.UNKNOWN,
    Meaning.INCOMPLETE,
    Meaning.REWRITTEN,
    Meaning.OTHER_MODEL,
    Meaning.HARMLESS,
    Meaning.EQUAL,
)
_LEAD: Final = {
    Meaning.DAMAGE: "damage",
    Meaning.UNKNOWN: "a difference that no rule accounts for",
    Meaning.INCOMPLETE: "B is not complete",
    Meaning.REWRITTEN: "changed by software, not by chance",
    Meaning.OTHER_MODEL: "another state of the model, or another model",
    Meaning.HARMLESS: "a harmless difference",
    Meaning.EQUAL: "equal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two models come to.

    Attributes:
        found: The class of the whole: the gravest group's.
        meaning: What that is for the person who asks.
        headline: One sentence.
        why: What it stands on, one clause.
        groups: The differences, the gravest first.
        num_equal: Tensors that are equal to the bit.
        num_compared: Tensors that were compared.
        values: Plain values that differ: `(key, A's, B's)`.
        copy: Of two folders: whether A's files are all in B.
    """

    found: DifferenceClass
    meaning: Meaning
    headline: str
    why: str
    groups: Sequence[Group]
    num_equal: int
    num_compared: int
    values: Sequence[tuple[str, object, object]] = ()
    copy: Mapping[str, Any] | None = None

    def to_json(self, findings: Sequence[Finding]) -> dict[str, Any]:
        """Return the `comparison` object of a diff's verdict."""
        rows = [_row(each, group) for group in self.groups for each in group.differences]
        return {
            "class": str(self.found),
            "meaning": str(self.meaning),
            "headline": self.headline,
            "equal": self.num_equal,
            "compared": self.num_compared,
            "groups": [
                {
                    "class": str(group.found),
                    "meaning": str(meaning_of(group)),
                    "why": group.why,
                    "tensors": len(group.differences),
                    "finding": findings[place].id if place < len(findings) else None,
                }
                for place, group in enumerate(self.groups)
            ],
            "tensors": rows[:MAX_ROWS],
            "values": [
                {"key": key, "a": _plain(one), "b": _plain(other)}
                for key, one, other in self.values
            ],
        } | ({"copy": dict(self.copy)} if self.copy is not None else {})


def describe(
    groups: Sequence[Group],
    *,
    num_equal: int,
    num_compared: int,
    matchings: Sequence[Matching] = (),
    values: Sequence[tuple[str, object, object]] = (),
    same_bytes: bool | None = None,
    copy: Mapping[str, Any] | None = None,
) -> Comparison:
    """Return the comparison that follows from its groups.

    Args:
        groups: The differences, in any order.
        num_equal: Tensors that are equal to the bit.
        num_compared: Tensors that were compared.
        matchings: How the tensors were paired.
        values: Plain values that differ.
        same_bytes: Whether the files are equal byte by byte, where that is known.
        copy: Whether A's files are all in B, with a `sentence`.
    """
    rank = {found: place for place, found in enumerate(ORDER)}
    ordered = sorted(
        groups, key=lambda group: (_GRAVITY.index(meaning_of(group)), rank[group.found])
    )
    if ordered:
        lead = ordered[0]
        found, meaning, why = lead.found, meaning_of(lead), lead.why
        headline = _headline(ordered, num_equal, num_compared)
    else:
        found, why = _equal_class(matchings, same_bytes=same_bytes)
        meaning = MEANING[found]
        headline = f"all {num_compared} tensors are equal to the bit; {why}"
        if found is _C.IDENTICAL:
            headline = f"identical: {why}"
    if copy is not None:
        headline = f"{headline}; {copy['sentence']}"
    return Comparison(
        found=found,
        meaning=meaning,
        headline=headline,
        why=why,
        groups=ordered,
        num_equal=num_equal,
        num_compared=num_compared,
        values=values,
        copy=copy,
    )


def meaning_of(group: Group) -> Meaning:
    """Return what a group comes to."""
    if group.found in (_C.MISSING, _C.EXTRA) and group.evidence.get("harmless"):
        return Meaning.HARMLESS
    return MEANING[group.found]


def _headline(groups: Sequence[Group], num_equal: int, num_compared: int) -> str:
    lead = groups[0]
    others: list[str] = []
    for group in groups[1:]:
        if str(group.found) not in others:
            others.append(str(group.found))
    parts = [f"{_LEAD[meaning_of(lead)]}: {lead.found}: {_subject(lead)}{lead.why}"]
    same = sum(group.found is lead.found for group in groups[1:])
    if same:
        parts.append(f"{same} more of this class")
    if rest := [name for name in others if name != str(lead.found)]:
        parts.append(f"also {', '.join(rest)}")
    if num_compared:
        left = "every other" if num_equal and num_equal + 1 == num_compared else f"{num_equal}"
        of = "" if left == "every other" else f" of {num_compared}"
        noun = "tensor is" if left in ("every other", "1") else "tensors are"
        parts.append(f"{left}{of} {noun} equal to the bit")
    return "; ".join(parts)


def _subject(group: Group) -> str:
    if len(group.differences) != 1 or group.why.startswith(group.differences[0].name):
        return ""
    return f"{group.differences[0].name}: "


def _equal_class(
    matchings: Sequence[Matching], *, same_bytes: bool | None
) -> tuple[DifferenceClass, str]:
    """Return the class of two models without a differing value."""
    prefixes = [each for matching in matchings for each in matching.prefixes]
    tied = [each for matching in matchings for each in matching.tied]
    moved = sum(matching.moved for matching in matchings)
    if same_bytes:
        return _C.IDENTICAL, "the files hold the same bytes"
    if prefixes:
        side, prefix = prefixes[0]
        return _C.PREFIX, f"{side}'s names carry the prefix {prefix!r}"
    if tied:
        side, name, partner = tied[0]
        more = f", and {len(tied) - 1} more" if len(tied) > 1 else ""
        return _C.TIED, f"{name} is in {side} only and equal to {partner} (tied{more})"
    if moved:
        return _C.CONTAINER, f"{moved} of them lie in another file"
    if same_bytes is None:
        return _C.IDENTICAL, "every tensor is equal to the bit"
    return _C.CONTAINER, "only what lies around them differs: the files were saved otherwise"


def _row(each: Difference, group: Group) -> dict[str, Any]:
    """Return a tensor's line of the table."""
    row: dict[str, Any] = {"tensor": each.name, "class": str(each.found)}
    if each.found is not group.found:
        row["class"] = str(group.found)
        row["looks_like"] = str(each.found)
    row["path"] = each.tensor.path
    row["dtype"] = each.tensor.dtype
    row["shape"] = list(each.tensor.shape)
    row["why"] = each.why
    if partner := each.evidence.get("partner"):
        row["partner"] = partner
    m = each.measured
    if m is not None:
        row |= {
            "num_elements": m.num_elements,
            "of": m.total,
            "max_abs": json_number(m.widest),
            "max_rel": json_number(m.max_rel),
        }
        if m.max_ulp:
            row["max_ulp"] = m.max_ulp
        if m.sum_aa > 0 and math.isfinite(m.relative):
            row["relative"] = m.relative
    return row


def _plain(value: object) -> Any:
    if isinstance(value, float | complex):
        return json_number(value)
    return value if value is None or isinstance(value, bool | int | str) else repr(value)
