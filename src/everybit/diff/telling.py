"""A parting in words: the message, the evidence, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.divergence import DivergenceKind
from everybit.core.link import Link
from everybit.core.observation import split_entry
from everybit.core.trace_name import parse_trace_name
from everybit.diff.place import TENSOR_LINKS, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.diff.context import Context
    from everybit.diff.kind import Judgement
    from everybit.diff.parting import Parting
    from everybit.diff.walk import Walked

#: Further names told in evidence.
MAX_NAMES: Final = 16
_WHAT: Final = {Link.BATCH: "input", Link.RNG: "random stream", Link.LOSS: "loss"}

#: What a run that goes on from a checkpoint most often goes on without.
_LEFT_BEHIND: Final = {
    DivergenceKind.RNG: "the state of the random streams",
    DivergenceKind.DATA: "the position in the data",
}


def message_of(parting: Parting, judged: Judgement) -> str:
    """Return the finding's message."""
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
        values = [f"{side[number]:.9g}" for side in parting.losses]
        if values[0] == values[1]:
            values = [repr(side[number]) for side in parting.losses]
        return f"{values[0]} in A, {values[1]} in B"
    if count:
        text = f"{_shown(first.link, first.differing[0][0])}{_just_before(parting)}; "
        text += f"{count} of {first.num_compared} values differ"
        return f"{first.fact}; {text}" if first.fact else text
    if first.fact:
        return first.fact
    side, names = ("A", first.only_a) if first.only_a else ("B", first.only_b)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{_shown(first.link, names[0])}{more} recorded in {side} only"


def _just_before(parting: Parting) -> str:
    """Name the last output that agrees: what differs was computed between the two."""
    if parting.link is not Link.FORWARD or parting.records is None:
        return ""
    one, other = (
        {name: word for table in each.tables if table.link is Link.FORWARD for name, word in table}
        for each in parting.records
    )
    names = list(one)
    at = names.index(parting.first_name) if parting.first_name in one else 0
    name = names[at - 1] if at else ""
    traced = parse_trace_name(name)
    if traced is None or one[name] != other.get(name):
        return ""
    return f" ({shown(traced)}, just before it, agrees)"


def _first_loss(losses: tuple[tuple[float, ...], tuple[float, ...]]) -> int | None:
    for number, (one, other) in enumerate(zip(*losses, strict=False)):
        if repr(one) != repr(other):
            return number
    return None


def _shown(link: Link, name: str) -> str:
    traced = parse_trace_name(name)
    if traced is not None:
        return shown(traced)
    if link not in TENSOR_LINKS:
        return f"{_WHAT.get(link, 'value')} {name}"
    place = split_entry(name)
    if "optimizer" in place:
        return f"{place['tensor']} of {place['parameter']} ({place['optimizer']})"
    return name


def evidence_told(
    parting: Parting,
    judged: Judgement,
    parted: Sequence[Walked],
    last_agreed: int | None,
    context: Context,
) -> dict[str, Any]:
    """Return the finding's evidence, JSON-ready.

    Args:
        parting: Where the runs part.
        judged: What it is.
        parted: Every rank that parts, the first to do so in front.
        last_agreed: The last step that agrees in all ranks.
        context: What surrounds it.
    """
    evidence: dict[str, Any] = {"kind": str(judged.kind), "certainty": str(judged.certainty)}
    if parting.missing_in:
        return evidence | {"missing_in": parting.missing_in, "last_agreed_step": last_agreed}
    first = parting.differences[0]
    if judged.finding is not None:
        evidence["seen_at"] = {"step": parting.step, "link": str(first.link)}
    if first.differing:
        name, word_a, word_b = first.differing[0]
        traced = parse_trace_name(name)
        if traced is not None and traced.call:
            evidence["call"] = traced.call
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
        counts: dict[str, int] = {}
        for each in parting.differences:
            counts[str(each.link)] = counts.get(str(each.link), 0) + len(each.differing)
        evidence["links_differing"] = counts
    ranks = [
        each.rank
        for each in parted
        if each.parting is not None and each.parting.order[:2] == parting.order[:2]
    ]
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
    if context.evidence is not None:
        evidence["measured"] = context.evidence.to_json()
    explained = context.explained_by()
    if explained:
        evidence["preceded_by"] = [each["entry"] for each in explained[:MAX_NAMES]]
    return evidence


def remedy_of(
    parting: Parting, judged: Judgement, context: Context, *, goes_on: bool = False
) -> str:
    """Return what to do; "" where nothing helps but to look closer.

    Args:
        parting: Where the runs part.
        judged: What it is.
        context: What surrounds it.
        goes_on: Whether it is the first step of a run that goes on from the other's state.
    """
    if judged.finding is not None:
        return judged.finding.remedy
    if goes_on and judged.kind in _LEFT_BEHIND:
        return (
            f"The checkpoint did not bring {_LEFT_BEHIND[judged.kind]} along: save and restore it "
            "too (`guard.state_dict()` holds it)."
        )
    advice = {
        DivergenceKind.INIT: "Seed before the model is built, or start both from one checkpoint.",
        DivergenceKind.DATA: "Compare the order of the samples, the bytes of the data files, and "
        "their preprocessing.",
        DivergenceKind.RNG: "Set the same seeds, and look for code that draws in one run only.",
        DivergenceKind.CONFIG: "Give both runs the same code and settings; `explained_by` lists "
        "what differs.",
        DivergenceKind.NOISE: "Nothing is broken. For equal bits, compute both with the same "
        "threads, libraries and processor.",
        DivergenceKind.CORRUPTION: "Compute that step again (`everybit diff --zoom`), and test the "
        "machine's memory.",
    }
    if parting.forgotten is not None:
        return "Load the optimizer's state too (and the scheduler's), from the same checkpoint."
    if parting.resumed and judged.kind is DivergenceKind.UNKNOWN:
        return "Start both from one checkpoint, or compare with the run that wrote this one's."
    if judged.kind in advice:
        return advice[judged.kind]
    if judged.kind is DivergenceKind.UNKNOWN and context.explained_by():
        return "Align what `explained_by` lists, and run both again."
    if judged.kind is DivergenceKind.UNKNOWN and parting.link not in (Link.INIT, Link.LOAD):
        return (
            "Find the operation (`everybit diff --zoom`), and look for what it follows that is "
            "not on record: a file, a variable, a clock."
        )
    return ""
