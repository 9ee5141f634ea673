"""Damage that one run recorded between the last agreement of two runs and their parting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.link import Link

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.diff.parting import Parting
    from everybit.diff.side import RunSide

#: Rules whose findings say that carried bits were damaged.
AT_REST: Final = frozenset({"MEM601", "MEM602"})
#: Of a gradient, damaged between the backward pass and the update.
_GRADIENT: Final = "MEM603"
#: Rules whose findings say that a computation gave wrong bits: computed again it gave others.
_COMPUTED: Final = frozenset({"CMP701", "CMP702"})
AFTER_STATE: Final = frozenset(
    {Link.STATE, Link.FORWARD, Link.LOSS, Link.GRAD, Link.REDUCE, Link.UPDATE, Link.OUTPUT}
)


def damage_before(
    parting: Parting, a: RunSide, b: RunSide, last_agreed: int | None
) -> tuple[RunSide, Finding] | None:
    """Return the damage that explains a parting, and the run that recorded it; None with none.

    Damage that both runs recorded explains no difference between them.
    """
    if parting.link not in AFTER_STATE:
        return None
    explaining = [
        (side, finding)
        for side, other in ((a, b), (b, a))
        for finding in side.findings
        if _explains(finding, parting, last_agreed)
        and _fingerprint(finding) not in [_fingerprint(each) for each in other.findings]
    ]
    return min(explaining, key=lambda each: (each[1].where.step or 0, each[1].rule), default=None)


def _explains(finding: Finding, parting: Parting, last_agreed: int | None) -> bool:
    step = finding.where.step
    if step is None or step > parting.step or (last_agreed is not None and step <= last_agreed):
        return False
    if finding.rule in _COMPUTED:
        return step == parting.step and finding.where.rank in (None, parting.rank)
    if finding.rule == _GRADIENT:
        return step == parting.step and parting.link in (Link.GRAD, Link.REDUCE, Link.UPDATE)
    if finding.rule not in AT_REST:
        return False
    # Optimizer state is first used in the update: it explains no loss or gradient of its own step.
    if finding.rule == "MEM602" and step == parting.step and parting.link is not Link.UPDATE:
        return False
    # Healed before its first use, it cannot have entered a computation.
    return not finding.evidence.get("healed") or bool(finding.evidence.get("tainted"))


def _fingerprint(finding: Finding) -> tuple[str, str]:
    return finding.id, repr(finding.evidence.get("changes"))
