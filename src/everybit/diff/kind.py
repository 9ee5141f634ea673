"""What a parting is, as far as the recorded evidence goes; `unknown` beyond that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.divergence import DivergenceKind
from everybit.core.link import Link

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.diff.parting import Parting
    from everybit.diff.side import RunSide

#: Rules whose findings say that carried bits were damaged.
AT_REST: Final = frozenset({"MEM601", "MEM602"})
_AFTER_STATE: Final = frozenset(
    {Link.STATE, Link.FORWARD, Link.LOSS, Link.GRAD, Link.REDUCE, Link.UPDATE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A kind, the sentence that says why, and the finding it stands on, if any.

    Attributes:
        kind: The kind.
        why: One sentence.
        finding: A recorded finding that explains the parting.
        side: The run that recorded it.
    """

    kind: DivergenceKind
    why: str
    finding: Finding | None = None
    side: RunSide | None = None


def judge_kind(
    parting: Parting, a: RunSide, b: RunSide, *, last_agreed: int | None, explained: bool
) -> Judgement:
    """Say what the parting is.

    Args:
        parting: Where two runs part.
        a: Run A, with its recorded findings.
        b: Run B.
        last_agreed: The last step at which the rank's values all agreed.
        explained: Whether differences of environment, code or configuration precede it.
    """
    if parting.missing_in:
        return Judgement(
            kind=DivergenceKind.MISSING,
            why=f"{parting.missing_in} recorded steps before and after this one, and not this one",
        )
    first = parting.differences[0]
    if first.link in (Link.INIT, Link.LOAD):
        return _judge_start(parting, last_agreed)
    damage = _damage_before(parting, a, b, last_agreed) if first.link in _AFTER_STATE else None
    if damage is not None:
        return damage
    if not first.differing and not first.fact:
        return Judgement(
            kind=DivergenceKind.MISSING,
            why="the values that both runs recorded agree; some were recorded in one run only",
        )
    if first.link is Link.RNG:
        return Judgement(
            kind=DivergenceKind.RNG,
            why="everything recorded before agrees and the random streams differ: "
            "another seed, or another number of draws",
        )
    if first.link is Link.BATCH:
        # Streams that differ are put in front of the batch, so here they agree.
        return Judgement(
            kind=DivergenceKind.DATA,
            why="the batch differs while the random streams and everything recorded before agree",
        )
    if first.link is Link.UPDATE and first.optimizers_differ:
        return Judgement(
            kind=DivergenceKind.CONFIG,
            why=f"batch, loss and gradients agree and another optimizer steps: {first.fact}",
        )
    if explained:
        return Judgement(
            kind=DivergenceKind.UNKNOWN,
            why="everything recorded before it agrees; whether the differences listed in "
            "`explained_by` account for it, the record alone does not tell",
        )
    return Judgement(
        kind=DivergenceKind.UNKNOWN,
        why="everything recorded before it agrees, and nothing recorded tells arithmetic noise "
        "from damage",
    )


def _judge_start(parting: Parting, last_agreed: int | None) -> Judgement:
    first = parting.differences[0]
    if last_agreed is not None:
        return Judgement(
            kind=DivergenceKind.UNKNOWN,
            why="a state was loaded in the middle of the run, and it is not the same in both",
        )
    if parting.forgotten is not None:
        return Judgement(kind=DivergenceKind.MISSING, why=parting.forgotten.why)
    if not first.differing:
        return Judgement(
            kind=DivergenceKind.MISSING,
            why="the initial values that both runs recorded agree; some exist in one run only",
        )
    if parting.resumed:
        return Judgement(kind=DivergenceKind.UNKNOWN, why=_other_state(parting.resumed))
    source = "loaded" if first.link is Link.LOAD else "initial"
    return Judgement(
        kind=DivergenceKind.INIT, why=f"the {source} values differ before the first step"
    )


def _other_state(resumed: str) -> str:
    if len(resumed) > 1:
        return "the runs go on from different states; neither record holds the other's after a step"
    other = "B" if resumed == "A" else "A"
    return (
        f"run {resumed} goes on from a state (an earlier attempt, or optimizer state from the "
        f"start) that the record of run {other} does not hold"
    )


def _damage_before(
    parting: Parting, a: RunSide, b: RunSide, last_agreed: int | None
) -> Judgement | None:
    """Return the damage at rest that one run recorded between the last agreement and here."""
    explaining = [
        (side, finding)
        for side, other in ((a, b), (b, a))
        for finding in side.findings
        if _explains(finding, parting, last_agreed)
        and _fingerprint(finding) not in [_fingerprint(each) for each in other.findings]
    ]
    if not explaining:
        return None
    side, finding = min(explaining, key=lambda each: (each[1].where.step or 0, each[1].rule))
    return Judgement(
        kind=DivergenceKind.CORRUPTION,
        why=f"run {side.name} recorded {finding.rule} between the last step that agrees and the "
        f"first that does not: {finding.message}",
        finding=finding,
        side=side,
    )


def _explains(finding: Finding, parting: Parting, last_agreed: int | None) -> bool:
    step = finding.where.step
    if finding.rule not in AT_REST or step is None or step > parting.step:
        return False
    if last_agreed is not None and step <= last_agreed:
        return False
    # Optimizer state is first used in the update: it explains no loss or gradient of its own step.
    if finding.rule == "MEM602" and step == parting.step and parting.link is not Link.UPDATE:
        return False
    # Healed before its first use, it cannot have entered a computation.
    return not finding.evidence.get("healed") or bool(finding.evidence.get("tainted"))


def _fingerprint(finding: Finding) -> tuple[str, str]:
    return finding.id, repr(finding.evidence.get("changes"))
