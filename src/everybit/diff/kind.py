"""What a parting is, as far as the recorded evidence goes; `unknown` beyond that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.divergence import DivergenceKind
from everybit.core.finding import Certainty
from everybit.core.link import Link
from everybit.diff.context import is_precision
from everybit.diff.damage import damage_before
from everybit.diff.noise import is_broad, is_narrow, judge_evidence, size_of
from everybit.diff.read_files import SECTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.diff.context import Context
    from everybit.diff.environment import Difference
    from everybit.diff.evidence import Evidence
    from everybit.diff.parting import Parting
    from everybit.diff.side import RunSide

#: Differences named in a sentence.
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A kind, the sentence that says why, and the finding it stands on, if any.

    Attributes:
        kind: The kind.
        why: One sentence.
        certainty: What stands behind the kind: an exact test, strong evidence, or little.
        finding: A recorded finding that explains the parting.
        side: The run that recorded it.
    """

    kind: DivergenceKind
    why: str
    certainty: Certainty = Certainty.STRONG
    finding: Finding | None = None
    side: RunSide | None = None


def judge_kind(
    parting: Parting, a: RunSide, b: RunSide, *, last_agreed: int | None, context: Context
) -> Judgement:
    """Say what the parting is.

    Args:
        parting: Where two runs part.
        a: Run A, with its recorded findings.
        b: Run B.
        last_agreed: The last step at which the rank's values all agreed.
        context: What precedes the parting, and the evidence at it.
    """
    if parting.missing_in:
        return Judgement(
            kind=DivergenceKind.MISSING,
            why=f"{parting.missing_in} recorded steps before and after this one, and not this one",
            certainty=Certainty.PROOF,
        )
    first = parting.differences[0]
    if roles_differ(a, b):
        return _of_roles(b)
    if first.link in (Link.INIT, Link.LOAD):
        return _judge_start(parting, last_agreed)
    damage = damage_before(parting, a, b, last_agreed)
    if damage is not None:
        side, finding = damage
        return Judgement(
            kind=DivergenceKind.CORRUPTION,
            why=f"run {side.name} recorded {finding.rule} between the last step that agrees and "
            f"the first that does not: {finding.message}",
            certainty=finding.certainty,
            finding=finding,
            side=side,
        )
    if first.link is Link.BATCH:
        return _judge_batch(parting, context)
    if not first.differing and not first.fact:
        return _judge_alone(context)
    if first.link is Link.RNG:
        return Judgement(
            kind=DivergenceKind.RNG,
            why="everything recorded before agrees and the random streams differ: "
            "another seed, or another number of draws",
        )
    if first.link is Link.UPDATE and first.optimizers_differ:
        return Judgement(
            kind=DivergenceKind.CONFIG,
            why=f"batch, loss and gradients agree and another optimizer steps: {first.fact}",
        )
    return _judge_computed(parting, context)


def roles_differ(a: RunSide, b: RunSide) -> bool:
    """Whether one run is known to train, and the other to evaluate only."""
    return {a.evaluates, b.evaluates} == {True, False}


def _judge_batch(parting: Parting, context: Context) -> Judgement:
    story = context.samples
    if story is not None:
        return Judgement(
            kind=story.kind, why=f"the batch differs: {story.why}", certainty=Certainty.PROOF
        )
    first = parting.differences[0]
    if not first.differing and not first.fact:
        return _judge_alone(context)
    # Streams that differ are put in front of the batch, so here they agree.
    return Judgement(
        kind=DivergenceKind.DATA,
        why="the batch differs while the random streams and everything recorded before agree",
    )


def _judge_alone(context: Context) -> Judgement:
    if context.acting:
        return _of_configuration(context.acting)
    return Judgement(
        kind=DivergenceKind.MISSING,
        why="the values that both runs recorded agree; some were recorded in one run only",
        certainty=Certainty.PROOF,
    )


def _judge_computed(parting: Parting, context: Context) -> Judgement:
    evidence = context.evidence
    assert evidence is not None
    narrow = is_narrow(evidence) and not evidence.confined
    # Another precision moves all of a tensor.
    acting = [
        each
        for each in context.acting
        if not (narrow and each.entry.startswith("configuration.precision."))
    ]
    if acting:
        return _of_configuration(acting)
    if context.samples is not None:
        return Judgement(
            kind=context.samples.kind,
            why=f"{_of_inputs(parting)}: {context.samples.why}",
            certainty=Certainty.STRONG,
        )
    precision = [each for each in context.preceding if is_precision(each)]
    if precision and evidence.first and not narrow and size_of(evidence) != "within":
        return _of_configuration(precision)
    if context.code and evidence.first and not narrow:
        judged = _of_code(parting, context, evidence)
        if judged is not None:
            return judged
    if evidence.relative is None and evidence.share is None and not _tells(context, evidence):
        return _unmeasured(context)
    weighed = judge_evidence(
        evidence,
        environment=bool(context.arithmetic) or bool(precision),
        settled=context.settled,
        code=bool(context.code),
    )
    why = f"everything recorded before it agrees; {weighed.why}"
    if context.arithmetic and weighed.kind is DivergenceKind.NOISE:
        why = f"{_listed(context.arithmetic)}, and everything else before it agrees; {weighed.why}"
    return Judgement(kind=weighed.kind, why=why, certainty=weighed.certainty)


def _of_inputs(parting: Parting) -> str:
    """Say what is known of the model's inputs, where other samples were delivered."""
    held = [
        any(table.link is Link.BATCH for table in record.tables) for record in parting.records or ()
    ]
    if held and all(held):
        return "the model's inputs agree and the rest of the batch differs"
    return "the model's inputs are not on record in both runs, and the loaders delivered others"


def _tells(context: Context, evidence: Evidence) -> bool:
    """Whether there is something to weigh although nothing was measured."""
    settled = context.settled and bool(evidence.repeats)
    return settled or evidence.confined or evidence.float64_ratio is not None


def _unmeasured(context: Context) -> Judgement:
    if not context.settled:
        why = (
            "everything recorded before it agrees; whether the differences listed in "
            "`explained_by` account for it, the record alone does not tell"
        )
    else:
        why = (
            "everything recorded before it agrees, and nothing recorded tells arithmetic noise "
            "from damage"
        )
    return Judgement(kind=DivergenceKind.UNKNOWN, why=why, certainty=Certainty.WEAK)


def _of_configuration(acting: Sequence[Difference]) -> Judgement:
    return Judgement(
        kind=DivergenceKind.CONFIG,
        why=f"{_listed(acting)}, which acts on this value; everything recorded before it agrees",
    )


def _of_code(parting: Parting, context: Context, evidence: Evidence) -> Judgement | None:
    """Return `config` where other code accounts for the first step's difference; None for noise.

    What is rounded otherwise is noise whatever wrote it so; an update that differs a little is not,
    since a small step differs little.
    """
    rounding = parting.link is not Link.UPDATE and size_of(evidence) == "within"
    if rounding and (is_broad(evidence) or evidence.share is None) and context.arithmetic:
        return None
    # A package may have no part in the loop; the program's files and arguments have.
    told = any(not each.entry.startswith("packages.") for each in context.code)
    return Judgement(
        kind=DivergenceKind.CONFIG,
        why=f"{_listed(context.code)}; it is the first step that differs, and everything recorded "
        "before it agrees",
        certainty=Certainty.STRONG if is_broad(evidence) and told else Certainty.WEAK,
    )


def _listed(differences: Sequence[Difference]) -> str:
    told = [_difference(each) for each in differences[:_SHOWN]]
    more = len(differences) - _SHOWN
    return ", ".join(told) + (f", and {more} more" if more > 0 else "")


def _difference(each: Difference) -> str:
    name = each.entry.removeprefix("configuration.")
    values = f"is {_value(each.before)} in A and {_value(each.after)} in B"
    if not name.startswith(f"{SECTION}."):
        return f"{name} {values}"
    name = name.removeprefix(f"{SECTION}.")
    if each.before is None or each.after is None:
        reader, other = ("A", "B") if each.after is None else ("B", "A")
        return f"the file {name} was read by {reader} before its first step, and not by {other}"
    return f"the file {name}, read before the first step, holds other bytes in B than in A"


def _of_roles(b: RunSide) -> Judgement:
    trains, answers = ("A", "B") if b.evaluates else ("B", "A")
    return Judgement(
        kind=DivergenceKind.CONFIG,
        why=f"run {trains} trains and run {answers} evaluates: nothing is updated in {answers}, so "
        "the two are no twins; compare two trainings, or two evaluations",
        certainty=Certainty.PROOF,
    )


def _value(value: object) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _judge_start(parting: Parting, last_agreed: int | None) -> Judgement:
    first = parting.differences[0]
    if last_agreed is not None:
        return Judgement(
            kind=DivergenceKind.UNKNOWN,
            why="a state was loaded in the middle of the run, and it is not the same in both",
            certainty=Certainty.WEAK,
        )
    if parting.forgotten is not None:
        return Judgement(
            kind=DivergenceKind.MISSING, why=parting.forgotten.why, certainty=Certainty.PROOF
        )
    if not first.differing:
        return Judgement(
            kind=DivergenceKind.MISSING,
            why="the initial values that both runs recorded agree; some exist in one run only",
            certainty=Certainty.PROOF,
        )
    if parting.resumed:
        return Judgement(
            kind=DivergenceKind.UNKNOWN,
            why=_other_state(parting.resumed),
            certainty=Certainty.WEAK,
        )
    source = "loaded" if first.link is Link.LOAD else "initial"
    return Judgement(
        kind=DivergenceKind.INIT,
        why=f"the {source} values differ before the first step",
        certainty=Certainty.PROOF,
    )


def _other_state(resumed: str) -> str:
    if len(resumed) > 1:
        return "the runs go on from different states; neither record holds the other's after a step"
    other = "B" if resumed == "A" else "A"
    return (
        f"run {resumed} goes on from a state (an earlier attempt, or optimizer state from the "
        f"start) that the record of run {other} does not hold"
    )
