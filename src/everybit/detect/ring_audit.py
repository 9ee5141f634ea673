"""CMP701 by the ring audit: two ranks compute the same call and give other bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A call that one rank has made, its neighbour again, and perhaps a third rank.

    Attributes:
        step: Updates finished or skipped before it.
        owner: The rank that made it, and repeated it exactly.
        auditor: The rank that made it again, and tells.
        third: The rank that settles it; None where there is none, or it did not come in time.
        digests: What the call gave on each of the three; 0 where it was not made.
        agreed_before: The first two have agreed on a call before.
        link: `forward` or `grad`.
        module: The first part that gave something else.
        operation: Of autograd, in the backward pass.
    """

    step: int
    owner: int
    auditor: int
    third: int | None
    digests: tuple[int, int, int]
    agreed_before: bool
    link: str
    module: str
    operation: str


def judge_audit(found: Audited) -> Finding:
    """Return the finding: the rank that two others contradict, or that it is open which."""
    theirs, mine, third = found.digests
    settled = found.third is not None and third != 0
    culprit: int | None = None
    if settled and third == mine:
        culprit = found.owner
    elif settled and third == theirs:
        culprit = found.auditor
    place = f"module {found.module}" if found.module else "the model"
    kind = "gradient" if found.link == "grad" else "output"
    message = (
        f"the {kind} of {place} at step {found.step} of rank {found.owner} is another one on rank "
        f"{found.auditor}, with the same weights and inputs"
    )
    severity: Severity | None = None
    remedy = (
        f"Take the device of rank {culprit} out of service and test it: it gives the same wrong "
        "bits each time, so that no replay on it can see them."
    )
    if culprit is not None:
        message += f": rank {culprit} is wrong, rank {found.third} agrees with the other"
    elif settled:
        message += f", and a third one on rank {found.third}"
        severity = Severity.WARNING
        remedy = "The ranks do not compute alike: compare their devices, libraries and settings."
    else:
        message += f": one of them is wrong, rank {found.owner} or {found.auditor}"
        remedy = "Two ranks cannot settle it: test both devices, or run with three."
        if not found.agreed_before:
            severity = Severity.WARNING
    evidence: dict[str, Any] = {
        "verdict": "persistent" if culprit == found.owner else "unsettled",
        "ranks": [found.owner, found.auditor] + ([found.third] if settled else []),
        "digests": {
            str(rank): f"{digest:016x}"
            for rank, digest in zip(
                (found.owner, found.auditor, found.third), found.digests, strict=True
            )
            if rank is not None and digest
        },
        "replayed_at_home": "exactly",
        "agreed_before": found.agreed_before,
    }
    if culprit == found.auditor:
        evidence["verdict"] = "the audit erred"
    if found.operation:
        evidence["operation"] = found.operation
    return rule("CMP701").finding(
        message,
        where=Location(step=found.step, rank=culprit, link=Link(found.link), module=found.module),
        evidence=evidence,
        remedy=remedy,
        severity=severity,
        certainty=Certainty.STRONG,
    )
