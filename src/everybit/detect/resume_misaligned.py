"""DAT407: after a resume, samples are replayed or skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord


def judge_resume(
    problems: Sequence[str],
    loader: str,
    *,
    rank: int,
    step: int | None = None,
    epoch: int | None = None,
    batch: int | None = None,
) -> Finding:
    """Say that a loader did not go on from where it was saved, and which link broke it.

    Args:
        problems: Why the position could not be reached.
        loader: Name of the loader.
        rank: Rank of this process.
        step: Updates finished.
        epoch: Number of the pass.
        batch: Number of the first batch behind the position.
    """
    at = f" at batch {batch} of epoch {epoch}" if batch is not None else ""
    return rule("DAT407").finding(
        f"{loader} does not go on{at} where it was saved: {'; '.join(problems)}",
        where=Location(link=Link.BATCH, step=step, rank=rank),
        evidence={"loader": loader, "epoch": epoch, "batch": batch, "problems": list(problems)},
    )


def judge_going_on(
    before: Sequence[SampleRecord],
    after: Sequence[SampleRecord],
    *,
    step: int,
    ahead: int = 0,
    passed: int = 0,
) -> Finding | None:
    """Compare what followed a checkpoint in one attempt with what followed it in the next.

    Where the same order goes on at another place, that is proof. Where a pass was going on and
    other samples come, its rest was left out, or its samples come again: a warning, since a loop
    may begin a new pass on purpose.

    Args:
        before: Batches of one loader in the earlier attempt, in order, past the checkpoint's step
            too.
        after: Those of the attempt that was resumed, in order.
        step: Updates that the checkpoint holds: batches for this step and later ones follow it.
        ahead: Batches that the loop fetches before it needs them.
        passed: Batches that the resumed loop took first and did not train on.

    Returns:
        A finding where the resumed attempt replays or skips batches; None where it goes on right,
        where the checkpoint was written between two passes and a new one begins, and where the
        earlier attempt had not come further, so that nothing can be compared.
    """
    known = [each for each in before if each.step >= 0]
    at = next((place for place, each in enumerate(known) if each.step >= step), None)
    found = [each for each in after if each.step >= 0][passed:]
    if at is None or not found:
        return None
    at = max(0, at - ahead)
    wanted, first = known[at], found[0]
    if _same(wanted, first) or (wanted.batch == 0 and first.batch == 0):
        return None
    shift = _shift(known, first, at)
    if shift is None:
        how = (
            "other samples than those that followed the checkpoint, which was written behind "
            f"{_batches(wanted.batch)} of epoch {wanted.epoch}"
        )
    else:
        how = f"{_batches(abs(shift))} {'is' if abs(shift) == 1 else 'are'} "
        how += "replayed" if shift < 0 else "skipped"
    return rule("DAT407").finding(
        f"{first.loader} goes on with batch {first.batch} of epoch {first.epoch} after the "
        f"checkpoint of step {step}: {how}",
        where=Location(link=Link.BATCH, step=step, rank=first.rank),
        evidence={"loader": first.loader, "shift": shift, "step": step},
        remedy="Save `guard.state_dict()` with the model and load it before the loop: the loader "
        "goes on behind the last batch.",
        severity=None if shift is not None else Severity.WARNING,
        certainty=None if shift is not None else Certainty.STRONG,
    )


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"


def _same(one: SampleRecord, other: SampleRecord) -> bool:
    if one.indices is not None and other.indices is not None:
        return one.indices == other.indices
    return one.batch_digest == other.batch_digest != 0


def _shift(before: Sequence[SampleRecord], first: SampleRecord, at: int) -> int | None:
    """Return how far away the same batch is, in the same pass rather than in another one."""
    places = [number for number, each in enumerate(before) if _same(each, first)]
    going = before[at].epoch
    nearest = min(
        places,
        key=lambda place: (before[place].epoch != going, abs(place - at)),
        default=None,
    )
    return None if nearest is None else nearest - at
