"""RNK801 and RNK802: copies of one tensor on several ranks are not the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.change import MAX_LISTED, evidence_of
from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.observation import split_entry
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.damage import Damage

#: A fault damages few parameters at once; other kernels or settings change most of them.
_BROAD: Final = 0.5
_MIN_BROAD: Final = 4
_GRADIENT: Final = "gradient of "


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedCopies:
    """Copies of one parameter, with what belongs to it, that are not the same on all ranks.

    Attributes:
        step: The update that was just finished or skipped.
        rank: The rank that tells.
        names: What parted: the parameter, its optimizer state, its gradient (`gradient of ...`).
        words: Each rank's digest of the first of them.
        culprits: The ranks that are wrong; where that is not known, all.
        named_by: What tells so: `majority`, `own finding`, or "".
        declared: The program keeps the copies equal.
        reduced: The gradients parted too, behind the reduction.
        buffer: It is a buffer.
        share: Which share of all parameters parted on the same ranks at once.
        damages: Where the bytes differ, where that is known.
    """

    step: int
    rank: int
    names: tuple[str, ...]
    words: Mapping[int, int]
    culprits: tuple[int, ...]
    named_by: str
    declared: bool
    reduced: bool
    buffer: bool
    share: float
    damages: tuple[Damage, ...]


def judge_replicas(parted: Sequence[PartedCopies]) -> list[Finding]:
    """Return a finding a parameter; one for all where a rank's parameters parted at large."""
    findings = []
    by_culprits: dict[tuple[int, ...], list[PartedCopies]] = {}
    for each in parted:
        by_culprits.setdefault(each.culprits, []).append(each)
    for group in by_culprits.values():
        broad = _is_broad(group)
        if broad or len(group) > MAX_LISTED:
            findings.append(_finding(group, broad=broad))
        else:
            findings += [_finding([each], broad=False) for each in group]
    return findings


def _is_broad(group: Sequence[PartedCopies]) -> bool:
    return group[0].share > _BROAD and len(group) >= _MIN_BROAD


def _finding(group: Sequence[PartedCopies], *, broad: bool) -> Finding:
    first = group[0]
    reduced = any(each.reduced for each in group)
    found = rule("RNK802" if reduced else "RNK801")
    damages = [damage for each in group for damage in each.damages]
    damage = damages[0] if damages else None
    names = [name for each in group for name in each.names]
    agreeing = sorted(set(first.words) - set(first.culprits))
    evidence: dict[str, Any] = {
        "culprits": list(first.culprits),
        "agreeing": agreeing,
        "named_by": first.named_by or "nothing: as many ranks hold one as the other",
        "digests": {str(rank): f"{word:016x}" for rank, word in sorted(first.words.items())[:16]},
        "num_tensors": len(names),
        "tensors": names[:MAX_LISTED],
        "healed": bool(damages) and all(each.healed for each in damages),
    }
    if damage is not None:
        evidence |= {"dtype": damage.dtype, "shape": list(damage.shape)}
        evidence["located_by"] = str(damage.located_by)
        if damage.num_elements:
            evidence["num_elements"] = damage.num_elements
        if damage.changes:
            evidence |= evidence_of(damage.changes) | {"num_elements": damage.num_elements}
    if broad:
        evidence["share_of_parameters"] = round(first.share, 3)
    soft = broad or not first.declared
    return found.finding(
        _message(group, damage, reduced=reduced, broad=broad, healed=evidence["healed"]),
        where=_where(group, damage, reduced=reduced),
        evidence=evidence,
        remedy=_remedy(first, broad=broad, healed=evidence["healed"]),
        severity=Severity.WARNING if soft else None,
        certainty=Certainty.PROOF if first.declared else Certainty.STRONG,
    )


def _where(group: Sequence[PartedCopies], damage: Damage | None, *, reduced: bool) -> Location:
    first = group[0]
    single = len(first.culprits) == 1 and bool(first.named_by)
    name = first.names[0].removeprefix(_GRADIENT)
    place: dict[str, Any] = dict(split_entry(name))
    if reduced:
        place.pop("tensor", None)
        place.pop("optimizer", None)
    if damage is not None:
        place["device"] = damage.device
        if damage.elements and len(group) == 1:
            place["elements"] = damage.elements
        elif damage.element_ranges and len(group) == 1:
            place["element_ranges"] = damage.element_ranges
    return Location(
        # A gradient was used in this update; weights and state are used in the next one.
        step=first.step if reduced else first.step + 1,
        link=Link.REDUCE if reduced else Link.STATE,
        rank=first.culprits[0] if single else None,
        **place,
    )


def _message(
    group: Sequence[PartedCopies],
    damage: Damage | None,
    *,
    reduced: bool,
    broad: bool,
    healed: bool,
) -> str:
    first = group[0]
    name = first.names[0].removeprefix(_GRADIENT)
    what = name if len(group) == 1 else f"{name} and {len(group) - 1} more parameters"
    if reduced:
        what = f"the reduced gradient of {what}"
    step = first.step if reduced else first.step + 1
    parts = [f"{what} at step {step} is not the same on all ranks: {_who(first)}"]
    if damage is not None and damage.num_elements and len(group) == 1:
        word = "element" if damage.num_elements == 1 else "elements"
        parts.append(f"{damage.num_elements} {word} of {damage.name}")
    if broad:
        parts.append(
            f"{first.share:.0%} of all parameters parted at once, as other kernels, threads or"
            " settings on that rank do, and hardly a fault"
        )
    if healed:
        parts.append("the right bits are back")
    return "; ".join(parts)


def _who(parted: PartedCopies) -> str:
    ranks = ", ".join(map(str, parted.culprits[:8])) + (" ..." if len(parted.culprits) > 8 else "")
    one = len(parted.culprits) == 1
    if not parted.named_by:
        return f"one of ranks {ranks} is wrong"
    others = len(parted.words) - len(parted.culprits)
    rank = f"rank {ranks} differs" if one else f"ranks {ranks} differ"
    if parted.named_by == "majority":
        return f"{rank} from the {others} others"
    return f"{rank}, and another check found damage there"


def _remedy(first: PartedCopies, *, broad: bool, healed: bool) -> str:
    if broad:
        return (
            "Compare the ranks' thread counts, devices, library versions and optimizer settings; "
            "their copies drift apart from here on."
        )
    if first.buffer:
        return "If one rank writes this buffer on purpose, broadcast it; else copy it from another."
    if healed:
        return "Nothing is lost; if it happens again on this rank, test its device and memory."
    return ""
