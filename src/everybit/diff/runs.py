"""Two runs side by side: the first value that parts, its kind, and what was not compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.observation import sample_of, split_entry
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage
from everybit.diff.coverage import run_coverage
from everybit.diff.environment import num_compared
from everybit.diff.explain import explain
from everybit.diff.kind import judge_kind
from everybit.diff.outcome import Outcome
from everybit.diff.resume import shift_finding
from everybit.diff.walk import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.diff.environment import Difference
    from everybit.diff.kind import Judgement
    from everybit.diff.parting import Parting
    from everybit.diff.resume import Shift
    from everybit.diff.side import RunSide
    from everybit.diff.walk import Walked

#: Further names told in evidence.
MAX_NAMES: Final = 16
#: Links whose names are parameters and optimizer state, not inputs or streams.
_TENSOR_LINKS: Final = frozenset(
    {Link.INIT, Link.LOAD, Link.STATE, Link.GRAD, Link.REDUCE, Link.UPDATE}
)

_WHAT: Final = {Link.BATCH: "input", Link.RNG: "random stream", Link.LOSS: "loss"}


def diff_runs(a: RunSide, b: RunSide) -> Outcome:
    """Compare two runs value by value in causal order, rank by rank.

    Neither run is held in memory: each rank is read once, side by side, to its first parting.
    """
    differences = explain(a, b)
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
    coverage = checked + run_coverage(a, b, walks)
    if not parted:
        return Outcome(findings=(), first=None, explained_by=(), coverage=coverage, stats=stats)
    parting = parted[0].parting
    assert parting is not None
    last_agreed = parted[0].last_agreed
    shift = parted[0].shift
    if shift is not None:
        a, b = (_counted_on(run, parting.rank, shift) for run in (a, b))
    judged = judge_kind(parting, a, b, last_agreed=last_agreed, explained=bool(differences))
    where = _place(parting, judged)
    finding = rule("DIF181").finding(
        _message(parting, judged),
        where=where,
        evidence=_evidence(parting, judged, parted, last_agreed, differences)
        | ({"aligned": shift.note} if shift is not None else {}),
        remedy=_remedy(parting, judged, differences),
    )
    return Outcome(
        findings=(finding,),
        first=Divergence(where=where, kind=judged.kind, why=judged.why),
        explained_by=tuple(difference.to_json() for difference in differences),
        coverage=coverage,
        stats=stats,
    )


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


def _place(parting: Parting, judged: Judgement) -> Location:
    if judged.finding is not None and judged.side is not None:
        # Carried state comes before what is computed from it: the damage is the first difference.
        return replace(judged.finding.where, run=judged.side.path or None)
    place = Location(step=parting.step, rank=parting.rank, link=parting.link)
    if parting.missing_in:
        return replace(place, link=None)
    name = _name(parting)
    if parting.link is Link.OUTPUT:
        return replace(place, sample=sample_of(name))
    if not name or parting.link not in _TENSOR_LINKS:
        return place
    names = split_entry(name)
    # A second root module's tensors go by `Module:parameter`.
    module, mark, parameter = names["parameter"].partition(":")
    return replace(
        place,
        module=module if mark else None,
        parameter=parameter if mark else module,
        optimizer=names.get("optimizer"),
        tensor=names.get("tensor"),
    )


def _name(parting: Parting) -> str:
    if parting.missing_in:
        return ""
    if parting.forgotten is not None:
        return parting.forgotten.state[0]
    first = parting.differences[0]
    if first.differing:
        return first.differing[0][0]
    return next(iter((*first.only_a, *first.only_b)), "")


def _message(parting: Parting, judged: Judgement) -> str:
    step = f"at step {parting.step}" + (f" of rank {parting.rank}" if parting.rank else "")
    if parting.missing_in:
        return f"the runs part {step}: {parting.missing_in} has no record of it"
    if parting.forgotten is not None:
        return parting.forgotten.why
    seen = f"{parting.link}: {_difference(parting)}"
    if judged.finding is not None and judged.side is not None:
        return f"{judged.finding.message} (run {judged.side.name}); the runs part {step}, {seen}"
    return f"the runs part {step}, {seen}"


def _difference(parting: Parting) -> str:
    first = parting.differences[0]
    count = len(first.differing)
    number = _first_loss(parting.losses)
    if first.link is Link.LOSS and number is not None:
        shown = [f"{side[number]:.9g}" for side in parting.losses]
        if shown[0] == shown[1]:
            shown = [repr(side[number]) for side in parting.losses]
        return f"{shown[0]} in A, {shown[1]} in B"
    if count:
        text = f"{_shown(first.link, first.differing[0][0])}; "
        text += f"{count} of {first.num_compared} values differ"
        return f"{first.fact}; {text}" if first.fact else text
    if first.fact:
        return first.fact
    side, names = ("A", first.only_a) if first.only_a else ("B", first.only_b)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{_shown(first.link, names[0])}{more} recorded in {side} only"


def _first_loss(losses: tuple[tuple[float, ...], tuple[float, ...]]) -> int | None:
    for number, (one, other) in enumerate(zip(*losses, strict=False)):
        if repr(one) != repr(other):
            return number
    return None


def _shown(link: Link, name: str) -> str:
    if link not in _TENSOR_LINKS:
        return f"{_WHAT.get(link, 'value')} {name}"
    place = split_entry(name)
    if "optimizer" in place:
        return f"{place['tensor']} of {place['parameter']} ({place['optimizer']})"
    return name


def _evidence(
    parting: Parting,
    judged: Judgement,
    parted: Sequence[Walked],
    last_agreed: int | None,
    differences: Sequence[Difference],
) -> dict[str, Any]:
    evidence: dict[str, Any] = {"kind": str(judged.kind)}
    if parting.missing_in:
        return evidence | {"missing_in": parting.missing_in, "last_agreed_step": last_agreed}
    first = parting.differences[0]
    if judged.finding is not None:
        evidence["seen_at"] = {"step": parting.step, "link": str(first.link)}
    if first.differing:
        name, word_a, word_b = first.differing[0]
        evidence |= {"name": name, "digest_a": f"{word_a:016x}", "digest_b": f"{word_b:016x}"}
    evidence |= {"num_differing": len(first.differing), "num_compared": first.num_compared}
    if parting.forgotten is not None:
        evidence |= {
            "forgotten": list(parting.forgotten.state[:MAX_NAMES]),
            "num_forgotten": len(parting.forgotten.state),
            "after_step": parting.forgotten.after,
        }
    if len(first.differing) > 1:
        evidence["names"] = [each[0] for each in first.differing[:MAX_NAMES]]
    for key, names in (("only_a", first.only_a), ("only_b", first.only_b)):
        if names:
            evidence[key] = list(names[:MAX_NAMES])
            evidence[f"num_{key}"] = len(names)
    if first.fact and not (first.link is Link.LOSS and first.differing):
        evidence["fact"] = first.fact
    if parting.losses[0] or parting.losses[1]:
        evidence |= {"losses_a": list(parting.losses[0]), "losses_b": list(parting.losses[1])}
    if any(parting.tainted):
        evidence |= {"tainted_a": parting.tainted[0], "tainted_b": parting.tainted[1]}
    evidence["last_agreed_step"] = last_agreed
    if len(parting.differences) > 1:
        evidence["links_differing"] = {
            str(each.link): len(each.differing) for each in parting.differences
        }
    ranks = [each.rank for each in parted if _order(each)[:2] == parting.order[:2]]
    if len(ranks) > 1:
        evidence["ranks"] = ranks
    if judged.finding is not None and judged.side is not None:
        evidence["explained_by_finding"] = {
            "run": judged.side.name,
            "rule": judged.finding.rule,
            "id": judged.finding.id,
            "message": judged.finding.message,
            "where": judged.finding.where.to_json(),
        }
    if differences:
        evidence["preceded_by"] = [each.entry for each in differences[:MAX_NAMES]]
    return evidence


def _remedy(parting: Parting, judged: Judgement, differences: Sequence[Difference]) -> str:
    if judged.finding is not None:
        return judged.finding.remedy
    advice = {
        DivergenceKind.INIT: "Seed before the model is built, or start both from one checkpoint.",
        DivergenceKind.DATA: "Compare the order of the samples and the bytes of the data files.",
        DivergenceKind.RNG: "Set the same seeds, and look for code that draws in one run only.",
        DivergenceKind.CONFIG: "Give both runs the same optimizer.",
    }
    if parting.forgotten is not None:
        return "Load the optimizer's state too (and the scheduler's), from the same checkpoint."
    if parting.resumed and judged.kind is DivergenceKind.UNKNOWN:
        return "Start both from one checkpoint, or compare with the run that wrote this one's."
    if judged.kind in advice:
        return advice[judged.kind]
    if judged.kind is DivergenceKind.UNKNOWN and differences:
        return "Align what `explained_by` lists, and run both again."
    return ""
