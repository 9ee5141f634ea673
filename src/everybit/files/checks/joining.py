"""Signs of one damage that goes over several records of an archive, as one damage."""

from __future__ import annotations

import bisect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location
from everybit.files.damage import Damage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.checks.checksums import Checksums
    from everybit.files.structure import Structure

_MAX_NAMES: Final = 16
#: Records of a directory that lie nearer than this are neighbours.
_NEAR_BYTES: Final = 128


def join(
    damages: list[Damage], by_member: dict[str, Damage], structure: Structure, checksums: Checksums
) -> tuple[list[Damage], dict[str, Damage]]:
    """Return the damages with those put together between which nothing of the file is whole.

    A run that was overwritten or lost takes headers, contents and descriptors of members one after
    the other. Two damages with a whole member between them are two, and so are members that fail
    each by itself with all records between them in order.

    Args:
        damages: What the structure says.
        by_member: Checksums that do not hold, by member.
        structure: The file's structure.
        checksums: Of its members.
    """
    records = [one for one in damages if _is_record(one)]
    if not structure.members or not records:
        return damages, by_member
    contents = [
        one for one in by_member.values()
        if one.rule == "FIL108" and "explained_by" not in one.evidence and one.where.byte_range
    ]  # fmt: skip
    signs = sorted((*records, *contents), key=_range)
    failed = {member.name for member in checksums.failed}
    whole = sorted(
        (member.start, member.end)
        for member in structure.members
        if member.usable and member.size and member.name not in failed
    )
    runs: list[list[Damage]] = []
    reach = 0
    for sign in signs:
        _, end = _range(sign)
        if runs and _touch(runs[-1], sign, reach, whole):
            runs[-1].append(sign)
            reach = max(reach, end)
        else:
            runs.append([sign])
            reach = end
    joined = [run for run in runs if len(run) > 1 and any(_is_record(sign) for sign in run)]
    gone = {id(sign) for run in joined for sign in run}
    return (
        [_one(run) for run in joined] + [one for one in damages if id(one) not in gone],
        {name: one for name, one in by_member.items() if id(one) not in gone},
    )


def _is_record(damage: Damage) -> bool:
    """Return whether a damage is of records in one place: no claim, and not of the whole file."""
    place = damage.where.byte_range
    in_entry = damage.rule == "FIL107" or "entry_start" in damage.evidence
    moved = "shifted_by" in damage.evidence
    return place is not None and in_entry and not damage.from_pickle and not moved


def _range(damage: Damage) -> tuple[int, int]:
    place = damage.where.byte_range
    return place if place is not None else (0, 0)


def _touch(run: list[Damage], sign: Damage, reach: int, whole: Sequence[tuple[int, int]]) -> bool:
    start, _ = _range(sign)
    if not (_is_record(run[-1]) or _is_record(sign)):
        return False
    if start <= reach:
        return True
    at = bisect.bisect_right(whole, (reach, reach)) - 1
    before = at >= 0 and whole[at][1] > reach
    behind = at + 1 < len(whole) and whole[at + 1][0] < start
    if before or behind:
        return False
    # Behind the last member lies the directory, whose records are small and lie close.
    last = whole[-1][1] if whole else 0
    return start < last or start - reach <= _NEAR_BYTES or not whole


def _one(run: list[Damage]) -> Damage:
    start, end = _range(run[0])[0], max(_range(sign)[1] for sign in run)
    members = list(dict.fromkeys(sign.where.member for sign in run if sign.where.member))
    tensors = list(
        dict.fromkeys(
            name
            for sign in run
            for name in (
                *sign.evidence.get("tensors", ()),
                *((sign.where.tensor,) if sign.where.tensor else ()),
            )
        )
    )
    records = [sign for sign in run if _is_record(sign)]
    evidence: dict[str, Any] = {
        "num_records": len(run),
        "structure": [sign.message for sign in records[:_MAX_NAMES]],
    }
    sums = [
        {"member": sign.where.member, **{k: sign.evidence[k] for k in ("expected", "found")}}
        for sign in run
        if sign.rule == "FIL108" and {"expected", "found"} <= sign.evidence.keys()
    ]
    if sums:
        evidence["checksums"] = sums[:_MAX_NAMES]
    if members:
        evidence["members"] = members[:_MAX_NAMES]
    if tensors:
        evidence["tensors"] = tensors[:_MAX_NAMES]
    if not members:
        return replace(records[0], evidence={**records[0].evidence, **evidence})
    span = f"from member {members[0]} on"
    if len(members) > 1:
        span = f"from member {members[0]} to {members[-1]}"
    elif len(run) == 2 and len(records) == 1:
        span = f"those of member {members[0]}"
    return Damage(
        rule="FIL107",
        message=f"records of the archive in a row cannot be right, {span}: "
        f"bytes {start:,} to {end:,} hold something else",
        where=Location(
            member=members[0],
            tensor=tensors[0] if len(tensors) == 1 else None,
            byte_range=(start, end),
        ),
        evidence=evidence,
    )
