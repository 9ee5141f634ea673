"""Two runs side by side: the first value that parts, its kind, and what was not compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage
from everybit.diff import shards, worlds
from everybit.diff.context import gather
from everybit.diff.coverage import run_coverage
from everybit.diff.environment import num_compared
from everybit.diff.explain import explain
from everybit.diff.kind import judge_kind
from everybit.diff.label_maps import label_differences, with_labels
from everybit.diff.later_samples import later_samples
from everybit.diff.outcome import Outcome
from everybit.diff.place import place_of
from everybit.diff.read_files import with_read_files
from everybit.diff.resume import shift_finding
from everybit.diff.telling import evidence_told, message_of, remedy_of
from everybit.diff.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Location
    from everybit.diff.context import Context
    from everybit.diff.evidence import Evidence
    from everybit.diff.issues import KnownIssue
    from everybit.diff.kind import Judgement
    from everybit.diff.parting import Parting
    from everybit.diff.resume import Shift
    from everybit.diff.side import RunSide
    from everybit.diff.walk import Walked

    Look = Callable[[Parting, Evidence], Evidence | None]

#: Kinds that a wrong result of one side's libraries can be taken for.
_MAY_BE_AN_ISSUE: Final = (
    DivergenceKind.NOISE,
    DivergenceKind.UNKNOWN,
    DivergenceKind.CORRUPTION,
)
#: Kinds behind which other samples may come, that the values alone no longer show.
_HIDES_SAMPLES: Final = (DivergenceKind.NOISE, DivergenceKind.UNKNOWN)


def diff_runs(
    a: RunSide, b: RunSide, *, look: Look | None = None, issues: Sequence[KnownIssue] = ()
) -> Outcome:
    """Compare two runs value by value in causal order, rank by rank.

    Neither run is held in memory: each rank is read once, side by side, to its first parting.

    Args:
        a: Run A.
        b: Run B.
        look: Asked once, about a first difference of a computed link, for better evidence than the
            records hold; None as its answer leaves it at theirs.
        issues: Known issues of one side's versions that give wrong results.
    """
    a, b, unread = with_read_files(a, b)
    differences = [*explain(a, b), *label_differences(a, b)]
    whole = shards.joined(a, b) if shards.differ(a, b) else None
    if whole is not None:
        a, b = whole.sides
        differences = [*whole.differences, *differences]
    other_worlds = worlds.differ(a, b)
    if other_worlds:
        differences = [worlds.difference(a, b), *differences]
        walks = [walk(worlds.joined(a), worlds.joined(b))]
    else:
        walks = [walk(a.ranks[rank], b.ranks[rank]) for rank in sorted({*a.ranks} & {*b.ranks})]
    parted = sorted(
        (each for each in walks if each.parting is not None), key=lambda each: _order(each)
    )
    checked = Coverage(
        checked=(
            Checked(what="environment entries", count=num_compared(a.environment, b.environment)),
            Checked(what="ranks", count=len(walks)),
            Checked(what="steps", count=sum(each.num_steps for each in walks)),
            Checked(what="values", count=sum(each.num_values for each in walks)),
        )
    )
    stats: dict[str, Any] = {
        "steps": sum(each.num_steps for each in walks),
        "values": sum(each.num_values for each in walks),
        "last_agreed_step": _last_agreed(walks),
        "preceding_differences": len(differences),
    }
    coverage = checked + run_coverage(a, b, walks) + Coverage(skipped=tuple(unread))
    if other_worlds:
        coverage += Coverage(skipped=(worlds.told(a, b),))
    if whole is not None:
        coverage += Coverage(skipped=(whole.told(),))
    if not parted:
        return Outcome(findings=(), first=None, explained_by=(), coverage=coverage, stats=stats)
    parting = parted[0].parting
    assert parting is not None
    last_agreed = parted[0].last_agreed
    shift = parted[0].shift
    if shift is not None:
        a, b = (_counted_on(run, parting.rank, shift) for run in (a, b))
    context = gather(
        parting,
        parted[0],
        differences,
        same_files=_same_files(a, b),
        issues=issues,
        num_ranks=max(len(a.ranks), len(b.ranks)),
    )
    if look is not None and context.evidence is not None:
        seen = look(parting, context.evidence)
        context = replace(context, evidence=seen or context.evidence)
    judged = judge_kind(parting, a, b, last_agreed=parted[0].last_agreed, context=context)
    if context.issues and judged.finding is None and judged.kind in _MAY_BE_AN_ISSUE:
        judged = replace(judged, why=f"{judged.why}; {context.issues[0].told()}")
    judged = with_labels(judged, parting, differences)
    later = None
    # Runs that begin with other states may count their steps otherwise.
    if judged.kind in _HIDES_SAMPLES and parting.link not in (Link.INIT, Link.LOAD):
        later = later_samples(*parted[0].sides, after=parting.step)
        judged = replace(judged, why=f"{judged.why}; {later.told()}") if later else judged
    where = _place(parting, judged, context)
    finding = rule("DIF181").finding(
        message_of(parting, judged),
        where=where,
        evidence=evidence_told(parting, judged, parted, last_agreed, context)
        | ({"aligned": shift.note} if shift is not None else {})
        | ({"samples_part_later": later.to_json()} if later is not None else {}),
        remedy=remedy_of(
            parting, judged, context, goes_on=shift is not None and last_agreed is None
        ),
    )
    return Outcome(
        findings=(finding,),
        first=Divergence(
            where=where, kind=judged.kind, why=judged.why, certainty=str(judged.certainty)
        ),
        explained_by=context.explained_by(),
        coverage=coverage,
        stats=stats,
    )


def _same_files(a: RunSide, b: RunSide) -> bool:
    code = [run.environment.get("code") for run in (a, b)]
    return isinstance(code[0], Mapping) and "script" in code[0] and code[0] == code[1]


def _counted_on(run: RunSide, rank: int, shift: Shift) -> RunSide:
    """Count the steps of a renumbered run's findings on too, so that they can be set in order."""
    if run.name != shift.side:
        return run
    findings = tuple(
        shift_finding(each, shift.offset) if each.where.rank in (None, rank) else each
        for each in run.findings
    )
    return replace(run, findings=findings)


def _order(walked: Walked) -> tuple[int, int, int]:
    parting = walked.parting
    assert parting is not None
    return parting.order


def _last_agreed(walks: Sequence[Walked]) -> int | None:
    steps = [each.last_agreed for each in walks]
    known = [step for step in steps if step is not None]
    return min(known) if len(known) == len(steps) and known else None


def _place(parting: Parting, judged: Judgement, context: Context) -> Location:
    if judged.finding is not None and judged.side is not None:
        # Carried state comes before what is computed from it: the damage is the first difference.
        return replace(judged.finding.where, run=judged.side.path or None)
    place = place_of(parting)
    if context.evidence is not None and context.evidence.elements:
        place = replace(place, elements=context.evidence.elements)
    if context.samples is not None and context.samples.sample is not None:
        place = replace(place, sample=context.samples.sample)
    if context.samples is not None and place.link not in (Link.BATCH, Link.RNG):
        # What the loader delivered comes before what is computed from it.
        place = replace(place, link=Link.BATCH, module=None, parameter=None)
    return place
