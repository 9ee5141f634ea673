"""What computing a step again adds to the verdict of a diff."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.link import Link
from everybit.core.observation import split_entry
from everybit.core.reanchored import How, Reanchored, judge_reanchored

if TYPE_CHECKING:
    from everybit.core.finding import Location
    from everybit.diff.outcome import Outcome

#: Kinds that a record alone cannot prove.
_OPEN: Final = frozenset({DivergenceKind.UNKNOWN, DivergenceKind.NOISE, DivergenceKind.CORRUPTION})
_UNDECIDED: Final = frozenset({How.UNREPEATED, How.EQUAL})
_LINKS: Final = {"forward": Link.FORWARD, "backward": Link.GRAD, "update": Link.UPDATE}
_REMEDIES: Final = {
    DivergenceKind.NOISE: "Give both runs the same thread count and precision flags; the rounding "
    "of one is as right as that of the other.",
    DivergenceKind.CORRUPTION: "Compute the step on another machine, and test the memory of this "
    "one; go back to a checkpoint from before it.",
    DivergenceKind.CONFIG: "Give both runs the same code and settings.",
}


def tell_zoomed(outcome: Outcome, found: Reanchored) -> Outcome:
    """Return the outcome with the operation, its values, and the kind that follows from them."""
    first = outcome.first
    assert first is not None
    kind, certainty, why = judge_reanchored(found)
    finding = outcome.findings[0]
    evidence = {**finding.evidence, "zoom": found.to_json(), "zoom_says": f"{kind}: {why}"}
    proven = "explained_by_finding" in evidence
    if first.kind not in _OPEN or proven or found.how in _UNDECIDED:
        told = first
        if found.how is How.UNREPEATED and first.certainty == "weak" and not proven:
            # It stood on the job repeating, or on nothing.
            told = replace(first, kind=kind, why=why)
            evidence |= {"kind": str(kind)}
        # Whoever waited for the computation is told what came of it.
        came = why if found.how in _UNDECIDED else _sentence(found)
        message = f"{finding.message}; computed again: {came}"
        remedy = finding.remedy
        if found.how is How.UNREPEATED and not proven:
            remedy = "Put back what it read then (files, variables), and compute it again."
        finding = replace(finding, message=message, evidence=evidence, remedy=remedy)
    else:
        where = _place(first.where, found)
        told = Divergence(where=where, kind=kind, why=why, certainty=certainty)
        evidence |= {"kind": str(kind), "certainty": str(certainty)}
        finding = replace(
            finding,
            message=f"{finding.message}; computed again: {_sentence(found)}",
            where=where,
            evidence=evidence,
            remedy=_REMEDIES.get(kind, finding.remedy),
        )
    return replace(
        outcome,
        findings=(finding, *outcome.findings[1:]),
        first=told,
        stats={**outcome.stats, "zoomed_step": found.step},
    )


def _place(where: Location, found: Reanchored) -> Location:
    """Return where it is: the operation's module and link, or the tensor that was changed."""
    facts: dict[str, Any] = {}
    if found.elements:
        facts["elements"] = found.elements
    if found.how is How.CARRIED and " " not in found.name:
        return replace(where, link=Link.STATE, **_named(found.name), **facts)
    if found.how is How.GIVEN:
        return where
    if found.how is How.TRANSIENT:
        return replace(where, module=found.module) if found.module else where
    link = _LINKS.get(found.phase, where.link)
    if found.phase == "update" and found.name:
        return replace(where, link=link, **_named(found.name), **facts)
    if not found.op.startswith("aten"):
        return where
    return replace(
        where, link=link, module=found.module or None, parameter=None, tensor=None, optimizer=None,
        **facts,
    )  # fmt: skip


def _named(name: str) -> dict[str, Any]:
    names = split_entry(name)
    module, mark, parameter = names["parameter"].partition(":")
    return {
        "module": module if mark else None,
        "parameter": parameter if mark else module,
        "optimizer": names.get("optimizer"),
        "tensor": names.get("tensor"),
    }


def _sentence(found: Reanchored) -> str:
    if found.how is How.TRANSIENT:
        return found.detail or f"{found.side} gives the other run's bits this time"
    place = f"{found.op} in {found.module}" if found.module else found.op
    text = f"first {place}" + (f" ({found.phase})" if found.phase else "")
    if found.how is How.CARRIED:
        text = f"{found.name} was changed by no operation, and is read first by {found.op}"
    elif found.how is How.GIVEN:
        text = f"{place} reads a value from outside torch"
    elif found.how in (How.NUMBERS, How.PATH):
        return f"{text}: {found.detail}"
    if not found.elements:
        return text
    more = f" and {found.num_differing - 1:,} more" if found.num_differing > 1 else ""
    text += f": element {found.elements[0]}{more} of {found.num_elements:,}"
    if found.value_a is not None and found.value_b is not None:
        text += f": {found.value_a:.9g} in A, {found.value_b:.9g} in B"
    apart = [] if found.max_ulp is None else [f"{found.max_ulp:,} ULP at most"]
    apart += [] if found.relative is None else [f"relative distance {found.relative:.3g}"]
    return f"{text} ({', '.join(apart)})" if apart else text
