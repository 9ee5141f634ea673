"""CMP701: a product is not what its checksums say, and computing it again bears that out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everybit.core.change import evidence_of
from everybit.core.dtype import json_number
from everybit.core.finding import Certainty, Location, Severity, place_elements
from everybit.core.link import Link
from everybit.core.pattern import describe_pattern
from everybit.core.rule import rule

if TYPE_CHECKING:
    from everybit.core.change import Change
    from everybit.core.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotFault:
    """A product that its checksums speak against.

    Attributes:
        step: Updates finished or skipped before it.
        rank: Rank of the process.
        operation: Its name in torch (`aten.addmm`).
        module: Qualified name of the module it was part of, "" where unknown.
        node: The node of the graph in whose backward it was, "" in a forward.
        parameter: A parameter among its operands, "" where there is none.
        device: Where it was computed.
        dtype: Of the result.
        shape: Of the result.
        distance: In units of what is suspicious.
        num_repeats: How often it was computed again; 0 where it could not be.
        num_same: How many of the repeats gave the first result's bits; None with no repeats.
        agreeing: Whether the repeats agree with each other.
        elements: Flat indices of the elements that are wrong, where known.
        changes: The first of them, with the repeats' value before and the first result's after.
        inexplicable: The repeats agree with the result, and no rounding explains it.
        healed: The repeats' result was handed on.
    """

    step: int
    rank: int
    operation: str
    module: str
    node: str
    parameter: str
    device: str
    dtype: str
    shape: tuple[int, ...]
    distance: float
    num_repeats: int
    num_same: int | None
    agreeing: bool
    elements: tuple[int, ...]
    changes: tuple[Change, ...]
    inexplicable: bool
    healed: bool


def judge_spot(fault: SpotFault) -> Finding:
    """Return the finding: proof where repeats differ, a warning where nothing was repeated."""
    verdict, severity, certainty = _verdict(fault)
    evidence: dict[str, Any] = {
        "verdict": verdict,
        "check": "checksum",
        "operation": fault.operation,
        "dtype": fault.dtype,
        "shape": list(fault.shape),
        "distance": json_number(fault.distance),
        "repeats": fault.num_repeats,
        "healed": fault.healed,
    }
    if fault.num_same is not None:
        evidence["repeats_like_the_first"] = fault.num_same
        evidence["repeats_agree"] = fault.agreeing
    if fault.node:
        evidence["node"] = fault.node
    if fault.changes:
        evidence |= evidence_of(fault.changes)
    if fault.elements:
        evidence |= {"num_elements": len(fault.elements)}
        evidence |= describe_pattern(fault.elements, fault.shape)
    backward = bool(fault.node)
    where = Location(
        step=fault.step,
        rank=fault.rank,
        link=Link.GRAD if backward else Link.FORWARD,
        module=fault.module or None,
        parameter=fault.parameter or None,
        device=fault.device,
        **(place_elements(fault.elements) if fault.elements else {}),
    )
    name = fault.module or fault.parameter or fault.node or "the model"
    return rule("CMP701").finding(
        f"{fault.operation} in {name} gave a wrong result at step {fault.step}: {_told(fault)}",
        where=where,
        evidence=evidence,
        severity=severity,
        certainty=certainty,
    )


def _verdict(fault: SpotFault) -> tuple[str, Severity, Certainty]:
    if fault.inexplicable:
        return "persistent", Severity.ERROR, Certainty.STRONG
    if fault.num_same is None:
        return "suspected", Severity.WARNING, Certainty.WEAK
    if fault.agreeing or fault.num_same:
        return "transient", Severity.ERROR, Certainty.PROOF
    return "nondeterministic", Severity.WARNING, Certainty.WEAK


def _told(fault: SpotFault) -> str:
    if fault.inexplicable:
        return "it repeats, and no rounding explains it; the device errs always"
    if fault.num_same is None:
        return "its checksums do not fit; it was not computed again"
    if fault.agreeing:
        return f"{fault.num_repeats} repeats agree on another one"
    if fault.num_same:
        return "of its repeats one differs"
    return "it gives another one each time"
