"""Judged values as findings: one for each damage, the other evidence inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import json_number
from everybit.core.finding import Certainty, Location, Severity, place_elements
from everybit.core.rule import rule
from everybit.files.element_places import elements_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.files.values.holes import Hole
    from everybit.files.values.implausible import Implausible, Outlier
    from everybit.files.values.nonfinite import NonFinite

_MAX_NAMES: Final = 16
#: More tensors than this that are not finite are one story: the run itself diverged.
_MAX_NONFINITE: Final = 8


def tell_hole(
    hole: Hole, name: str, evidence: dict[str, Any], members: Sequence[str] = ()
) -> Finding:
    """Return the finding for a hole.

    Args:
        hole: The hole.
        name: The file's path relative to the target.
        evidence: Other signs of the same damage: checksums, structure.
        members: Members of the archive whose records lie in it.
    """
    cut = [tensor.name for tensor in hole.cut]
    covered = [tensor.name for tensor in hole.covered]
    facts: dict[str, Any] = {
        "num_bytes": hole.end - hole.start,
        "block_bytes": hole.block_bytes,
        "cut": cut,
        "zeros_around": round(hole.zero_share, 4),
    }
    place: dict[str, Any] = {}
    if hole.cut:
        first = hole.cut[0]
        ranges = elements_at(first, max(hole.start, first.start), hole.end)
        facts["num_zero_elements"] = sum(end - start for start, end in ranges)
        place = {"tensor": first.name, "member": first.member}
        place["element_ranges"] = tuple(ranges[:_MAX_NAMES]) or None
        more = len(cut) + len(covered) - 1
        others = f" and {more} more tensor{'s' if more > 1 else ''}" if more else ""
        told = f"cut through tensor {first.name}{others}"
    else:
        place = {"member": members[0] if members else None}
        told = "lie over records of the archive"
    if covered:
        facts["covered"] = covered[:_MAX_NAMES]
        facts["num_covered"] = len(covered)
    if members:
        facts["members"] = list(dict.fromkeys(members))[:_MAX_NAMES]
    by_chance = not (hole.strong or hole.proven)
    return rule("FIL105").finding(
        f"{name}: {hole.end - hole.start:,} bytes of zeros from byte {hole.start:,} on {told}",
        where=Location(path=name, byte_range=(hole.start, hole.end), **place),
        evidence={**facts, **evidence},
        severity=Severity.WARNING if by_chance else None,
        certainty=Certainty.WEAK if by_chance else Certainty.PROOF if hole.proven else None,
    )


def tell_nonfinite(found: Sequence[NonFinite], name: str) -> list[Finding]:
    """Return the findings for tensors that are not finite: one each, or one for all of many."""
    if len(found) <= _MAX_NONFINITE:
        return [_nonfinite(one, name) for one in found]
    first = found[0]
    names = [tensor for one in found for tensor in one.span.names]
    return [
        rule("FIL112").finding(
            f"{name}: {len(found)} tensors are not finite, from {names[0]} on; "
            "the run diverged before it was saved, or much of the file is damaged",
            where=Location(path=name, tensor=first.span.tensor.name),
            evidence={
                "num_tensors": len(found),
                "tensors": names[:64],
                "num_nan": sum(one.num_nan for one in found),
                "num_infinite": sum(one.num_infinite for one in found),
            },
        )
    ]


def _nonfinite(one: NonFinite, name: str) -> Finding:
    tensor = one.span.tensor
    everything = one.num_nan == one.num_elements
    what = "all NaN" if everything else f"{one.what} of {one.num_elements:,} elements"
    place: dict[str, Any] = {}
    if one.elements and not everything:
        place = place_elements(one.elements)
    evidence: dict[str, Any] = {
        "num_nan": one.num_nan,
        "num_infinite": one.num_infinite,
        "num_elements_in_all": one.num_elements,
    }
    if len(one.span.tensors) > 1:
        evidence["also"] = one.span.names[1 : _MAX_NAMES + 1]
    single = one.num_elements == 1
    return rule("FIL112").finding(
        f"{name}: tensor {tensor.name} holds values that are not finite: {what}",
        where=Location(
            path=name,
            tensor=tensor.name,
            member=tensor.member,
            byte_range=(one.span.start, one.span.end),
            **place,
        ),
        evidence=evidence,
        severity=Severity.WARNING if single else None,
        certainty=Certainty.WEAK if single else None,
    )


def tell_implausible(one: Implausible, name: str) -> Finding:
    """Return the finding for a tensor with implausible elements."""
    tensor = one.span.tensor
    first = one.outliers[0]
    elements = [outlier.element for outlier in one.outliers if outlier.element is not None]
    which = f"element {first.element}" if first.element is not None else f"byte {first.place}"
    more = f" and {len(one.outliers) - 1} more" if len(one.outliers) > 1 else ""
    why = f"; bit {first.bit} flipped would explain it" if first.bit is not None else ""
    size = one.span.itemsize
    return rule("FIL113").finding(
        f"{name}: tensor {tensor.name}, {which}{more} is {_short(first.value)}, all others are at "
        f"most {one.largest:.3g}{why}",
        where=Location(
            path=name,
            tensor=tensor.name,
            member=tensor.member,
            byte_range=(first.place, one.outliers[-1].place + size),
            **(place_elements(elements) if elements else {}),
        ),
        evidence={
            "changes": [_change(outlier) for outlier in one.outliers if outlier.bit is not None],
            "values": [json_number(outlier.value) for outlier in one.outliers],
            "largest_other": one.largest,
            "median_octave": one.median_octave,
            "octaves_above": one.octaves,
        },
    )


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _change(outlier: Outlier) -> dict[str, Any]:
    return {
        "element": outlier.element,
        "before": json_number(outlier.before if outlier.before is not None else 0.0),
        "after": json_number(outlier.value),
        "bits": [outlier.bit],
    }


def facts_of(found: NonFinite | Implausible) -> dict[str, Any]:
    """Return values that are odd as evidence inside another finding about the same bytes."""
    tensor = found.span.tensor.name
    if hasattr(found, "outliers"):
        return {"tensor": tensor, "values": [json_number(o.value) for o in found.outliers]}
    return {"tensor": tensor, "not_finite": found.what}
