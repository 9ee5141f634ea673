"""CMP701 and CMP703 of whole steps: computed again from the same state, one came to other bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everybit.core.change import evidence_of
from everybit.core.finding import Certainty, Location, place_elements
from everybit.core.link import Link
from everybit.core.pattern import describe_pattern
from everybit.core.rule import rule

if TYPE_CHECKING:
    from everybit.core.change import Change
    from everybit.core.finding import Finding

_WORDS = {
    Link.BATCH: "the model was given other inputs",
    Link.FORWARD: "gave another output",
    Link.LOSS: "the loss was another one",
    Link.GRAD: "another gradient",
    Link.REDUCE: "another gradient reached the update",
    Link.UPDATE: "the update wrote other values",
    Link.STATE: "another value was left",
    Link.RNG: "the random generators went on otherwise",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMismatch:
    """The first value in which one computation of a step parts from those that agree.

    Attributes:
        step: Updates finished or skipped before it.
        rank: Rank of the process.
        attempt: Which computation it was, from 1.
        num_alike: Computations that agree with each other to the last bit.
        num_apart: Computations that do not agree with them.
        num_exact: Steps of this run that have repeated exactly before.
        link: Link of the chain.
        name: The value in words: `output of blocks.0.up`, `exp_avg of head.weight (AdamW)`.
        module: Qualified name of the module, None where it is none's.
        parameter: state_dict key.
        optimizer: Name of the optimizer.
        tensor: Name of an optimizer state tensor, or path of an input.
        device: `cpu`, `cuda:0`.
        dtype: Canonical dtype name.
        shape: Shape.
        elements: Flat row-major indices of those that differ, where they are known.
        ranges: `[start, end)` ranges that hold them, where only these are known.
        num_elements: How many differ, 0 where that is not known.
        num_bits: In how many bits.
        changes: The first of them: `before` is the right value, `after` the wrong one.
        signs: Rules of sensors that noticed it.
        detail: Anything else, in words.
    """

    step: int
    rank: int
    attempt: int
    num_alike: int
    num_apart: int
    num_exact: int
    link: Link
    name: str
    module: str | None = None
    parameter: str | None = None
    optimizer: str | None = None
    tensor: str | None = None
    device: str | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    num_elements: int = 0
    num_bits: int = 0
    changes: tuple[Change, ...] = ()
    signs: tuple[str, ...] = ()
    detail: str = ""


def judge_step(found: StepMismatch) -> Finding:
    """Return CMP701: a transient fault, proven where steps of this run have repeated before."""
    known = found.num_exact > 0
    what = _WORDS.get(found.link, "another value")
    computations = "computation" if found.num_alike == 1 else "computations"
    message = (
        f"step {found.step} computed again came to other bits: {found.name}, {what}{_extent(found)}"
        f" in computation {found.attempt}; {found.num_alike} {computations} agree"
    )
    certain = known and found.num_alike > 1
    return rule("CMP701").finding(
        message,
        where=_place(found),
        evidence=_evidence(found) | {"verdict": "transient", "rewound": found.num_alike > 1},
        certainty=Certainty.PROOF if certain else Certainty.STRONG,
        remedy=(
            "The step's result is that of the computations that agree: nothing is lost. If it "
            "happens again on this device, take it out of service and test it."
            if found.num_alike > 1
            else ""
        ),
    )


def judge_nondeterminism(found: StepMismatch) -> Finding:
    """Return CMP703: the step has never repeated, and no two computations of it agree."""
    return rule("CMP703").finding(
        f"no two computations of step {found.step} agree, and none has before: {found.name} is"
        " another one each time",
        where=_place(replace(found, elements=(), ranges=())),
        evidence=_evidence(found) | {"verdict": "nondeterministic"},
    )


def _place(found: StepMismatch) -> Location:
    keys: dict[str, Any] = {}
    if found.elements:
        keys = place_elements(found.elements)
    elif found.ranges:
        keys = {"element_ranges": found.ranges}
    return Location(
        step=found.step,
        rank=found.rank,
        link=found.link,
        module=found.module,
        parameter=found.parameter,
        optimizer=found.optimizer,
        tensor=found.tensor,
        device=found.device,
        **keys,
    )


def _evidence(found: StepMismatch) -> dict[str, Any]:
    evidence: dict[str, Any] = {
        "for": found.num_alike,
        "against": found.num_apart,
        "attempt": found.attempt,
        "repeated_exactly": found.num_exact,
        "value": found.name,
    }
    if found.dtype:
        evidence |= {"dtype": found.dtype, "shape": list(found.shape)}
    if found.num_elements:
        evidence |= evidence_of(found.changes)
        evidence |= {"num_elements": found.num_elements, "num_bits": found.num_bits}
        if found.elements:
            evidence |= describe_pattern(found.elements, found.shape)
    if found.signs:
        evidence["signs"] = list(found.signs)
    if found.detail:
        evidence["detail"] = found.detail
    return evidence


def _extent(found: StepMismatch) -> str:
    if found.num_elements == 1 and found.changes:
        change = found.changes[0]
        return f" (element {change.element}: {change.before!r} -> {change.after!r})"
    if found.num_elements:
        return f" ({found.num_elements} elements)"
    return f" ({found.detail})" if found.detail else ""
