"""MEM601, MEM602 and MEM603: a tensor at rest holds other bytes than its last writer left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.change import evidence_of
from everybit.core.damage import Damage, LocatedBy, Role
from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from everybit.core.change import Change


_RULES = {
    Role.PARAMETER: "MEM601",
    Role.BUFFER: "MEM601",
    Role.STATE: "MEM602",
    Role.GRADIENT: "MEM603",
}


def judge_at_rest(damage: Damage, *, step: int, rank: int, tainted: bool) -> Finding:
    """Turn damage into its finding.

    Args:
        damage: What changed.
        step: Updates finished or skipped before the damaged bits are next used.
        rank: Rank of the process.
        tainted: The damaged bits may have been used in this step already.
    """
    found = rule(_RULES[damage.role])
    evidence: dict[str, Any] = {
        "role": str(damage.role),
        "dtype": damage.dtype,
        "shape": list(damage.shape),
        "located_by": str(damage.located_by),
        "confirmed": damage.confirmed,
        "healed": damage.healed,
        "tainted": tainted,
    }
    if damage.last_right is not None:
        evidence["last_right"] = damage.last_right
    if damage.num_elements:
        evidence |= evidence_of(damage.changes)
        evidence |= {"num_elements": damage.num_elements, "num_bits": damage.num_bits}
    if damage.shard is not None:
        evidence["shard"] = {
            "global_shape": list(damage.shard.global_shape),
            "offset": None if damage.shard.offset is None else list(damage.shard.offset),
            "placements": list(damage.shard.placements),
        }
        places = damage.shard.elements(damage.elements, damage.shape)
        if places:
            evidence["global_elements"] = list(places)
    place: dict[str, Any] = (
        {"elements": damage.elements}
        if damage.elements
        else {"element_ranges": damage.element_ranges}
    )
    where = Location(
        step=step,
        link=Link.GRAD if damage.role is Role.GRADIENT else Link.STATE,
        rank=rank,
        module=damage.module,
        parameter=damage.parameter,
        optimizer=damage.optimizer,
        tensor=damage.tensor,
        device=damage.device,
        **place,
    )
    return found.finding(
        _message(damage, step=step, tainted=tainted),
        where=where,
        evidence=evidence,
        remedy=_remedy(damage, tainted=tainted),
        severity=Severity.WARNING if damage.doubt else None,
        certainty=Certainty.STRONG if damage.doubt else Certainty.PROOF,
    )


def _message(damage: Damage, *, step: int, tainted: bool) -> str:
    when = "between backward and" if damage.role is Role.GRADIENT else "before"
    of = " (this rank's shard)" if damage.shard is not None else ""
    parts = [f"{damage.name}{of} changed at rest {when} step {step}: {_extent(damage)}"]
    if damage.doubt:
        parts.append(damage.doubt)
    if damage.healed:
        parts.append("the right bits are back")
    if tainted and damage.last_right is not None:
        parts.append(f"it was last right at step {damage.last_right}: those since may have used it")
    elif tainted:
        parts.append("the step that was running may have used the damaged bits")
    return "; ".join(parts)


def _extent(damage: Damage) -> str:
    if damage.located_by is LocatedBy.ROWS:
        spans = ", ".join(f"{a} to {b - 1}" for a, b in damage.element_ranges[:4])
        more = " and more" if len(damage.element_ranges) > 4 else ""
        # A row whose sum came out the same by chance may hold more of it.
        return f"damage in elements {spans}{more} at least"
    if damage.num_elements == 1:
        return _one(damage.changes[0])
    first, last = (
        (damage.elements[0], damage.elements[-1])
        if damage.elements
        else (damage.element_ranges[0][0], damage.element_ranges[-1][1] - 1)
    )
    spread = f"{first} to {last}"
    return f"{damage.num_elements} elements, {damage.num_bits} bits (elements {spread})"


def _one(change: Change) -> str:
    bits = ", ".join(map(str, change.bits))
    word = "bit" if len(change.bits) == 1 else "bits"
    before, after = _short(change.before), _short(change.after)
    if before == after:
        before, after = repr(change.before), repr(change.after)
    values = f"{before} -> {after}"
    return f"element {change.element}, {word} {bits}: {values}"


def _short(value: complex) -> str:
    return f"{value:.6g}" if isinstance(value, (float, complex)) else str(value)


def _remedy(damage: Damage, *, tainted: bool) -> str:
    if damage.doubt:
        return (
            "If your own code writes there past torch, tell the Guard with `guard.rebaseline()`; "
            "if not, go back to a checkpoint from before this step and test the machine's memory."
        )
    if damage.healed and not tainted:
        return "Nothing is lost; if it happens again on this machine, test its memory."
    if damage.healed:
        return (
            "The bits are back, but this step may have computed with the damaged ones: "
            "go back to a checkpoint from before it if every bit counts."
        )
    return ""
