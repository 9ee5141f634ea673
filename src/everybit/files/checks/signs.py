"""The signs of damage in one file, put together: one finding for each damage, and what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Finding, Severity
from everybit.files.checks.joining import join
from everybit.files.salvage.states import list_states, states_of
from everybit.files.values.telling import facts_of, tell_hole, tell_implausible, tell_nonfinite

if TYPE_CHECKING:
    from everybit.files.checks.checksums import Checksums
    from everybit.files.damage import Damage
    from everybit.files.structure import Structure
    from everybit.files.values.holes import Hole
    from everybit.files.values.implausible import Implausible
    from everybit.files.values.judging import Judged
    from everybit.files.values.nonfinite import NonFinite

_MAX_NAMES: Final = 16


def tell(
    structure: Structure, checksums: Checksums, judged: Judged, name: str, size_bytes: int
) -> list[Finding]:
    """Return the findings about one file.

    A hole takes in the checksums that fail and the records that are gone because of it. A failed
    pickle record takes in what it claims, a failed member what is odd about its values.

    Args:
        structure: The file's structure.
        checksums: Of its members.
        judged: Its values.
        name: Its path relative to the target.
        size_bytes: Its size.
    """
    damages = [damage for damage in structure.damages if damage.rule != "FIL108"]
    by_member = dict(checksums.damages)
    findings: list[Finding] = []
    for hole in judged.holes:
        gone = [damage for damage in damages if _lies_in(damage, hole)]
        damages = [damage for damage in damages if damage not in gone]
        lost = [damage.where.member for damage in gone if damage.where.member]
        failed = [m for m in checksums.failed if m.start < hole.end and hole.start < m.end]
        evidence: dict[str, Any] = {}
        if failed:
            evidence["checksums"] = [
                {"member": m.name, **_sums(by_member[m.name])} for m in failed[:_MAX_NAMES]
                if m.name in by_member
            ]  # fmt: skip
        if gone:
            evidence["structure"] = [damage.message for damage in gone[:_MAX_NAMES]]
        findings.append(tell_hole(hole, name, evidence, lost))
    for member in checksums.failed:
        if any(member.start < hole.end and hole.start < member.end for hole in judged.holes):
            by_member.pop(member.name, None)
    damages = _without_moot(damages, checksums, by_member)
    damages, by_member = join(damages, by_member, structure, checksums)
    odd = _odd_values(judged, checksums, by_member)
    findings += [damage.finding(name) for damage in (*damages, *by_member.values())]
    findings += tell_nonfinite([one for one in judged.nonfinite if one not in odd], name)
    findings += [tell_implausible(one, name) for one in judged.implausible if one not in odd]
    return _with_salvage(findings, structure, checksums, judged, size_bytes)


def _lies_in(damage: Damage, hole: Hole) -> bool:
    place = damage.where.byte_range
    if place is None:
        return False
    if damage.rule == "FIL104" and "entry_start" in damage.evidence:
        # One archive of several, followed up to where it breaks off.
        return place[0] < hole.end and hole.start < place[1]
    return hole.start <= place[0] < hole.end


def _sums(damage: Damage) -> dict[str, Any]:
    return {key: damage.evidence[key] for key in ("expected", "found") if key in damage.evidence}


def _without_moot(
    damages: list[Damage], checksums: Checksums, by_member: dict[str, Damage]
) -> list[Damage]:
    """Move what a damaged pickle record claims into the evidence of that record's own damage."""
    claimed = {damage.where.member for damage in damages if damage.from_pickle}
    arrays = [member.name for member in checksums.failed if member.name in claimed]
    for record in dict.fromkeys((*checksums.failed_pickles, *arrays)):
        if record not in by_member:
            continue
        root = record.removesuffix("data.pkl")
        moot = [
            damage for damage in damages
            if damage.from_pickle and (damage.where.member or root).startswith(root)
        ]  # fmt: skip
        if not moot:
            continue
        damages = [damage for damage in damages if damage not in moot]
        first = by_member[record]
        evidence = {**first.evidence, "structure": [damage.message for damage in moot[:3]]}
        by_member[record] = replace(first, evidence=evidence)
    return damages


def _odd_values(judged: Judged, checksums: Checksums, by_member: dict[str, Damage]) -> list[Any]:
    """Note odd values of members that fail in the damage of the member; return what was noted."""
    failed = {member.name for member in checksums.failed}
    noted: list[Any] = []
    odd: list[NonFinite | Implausible] = [*judged.nonfinite, *judged.implausible]
    for one in odd:
        member = one.span.tensor.member
        if member is None or member not in failed:
            continue
        noted.append(one)
        damage = by_member.get(member)
        if damage is not None:
            values = [*damage.evidence.get("values", ()), facts_of(one)]
            by_member[member] = replace(damage, evidence={**damage.evidence, "values": values})
    return noted


def _with_salvage(
    findings: list[Finding],
    structure: Structure,
    checksums: Checksums,
    judged: Judged,
    size_bytes: int,
) -> list[Finding]:
    """Say in the first finding of damage what of the file is still whole, and by what evidence."""
    index = next(
        (i for i, f in enumerate(findings) if f.severity is Severity.ERROR and f.rule != "FIL112"),
        None,
    )
    if index is None or not structure.tensors or "readable" in findings[index].evidence:
        return findings
    states = states_of(structure, checksums, judged, size_bytes)
    first = findings[index]
    salvage = list_states(states, _MAX_NAMES)
    findings[index] = replace(first, evidence={**first.evidence, **salvage})
    return findings
