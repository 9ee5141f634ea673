"""DAT407: after a resume, samples are replayed or skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Location
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
    before: Sequence[SampleRecord], after: Sequence[SampleRecord], *, step: int
) -> Finding | None:
    """Compare what followed a checkpoint in one attempt with what followed it in the next.

    Args:
        before: Batches of the earlier attempt, in order, past the checkpoint's step too.
        after: Batches of the attempt that was resumed, in order.
        step: Updates that the checkpoint holds: batches for this step and later ones follow it.

    Returns:
        A finding where the resumed attempt replays or skips batches; None where it goes on right,
        and where the earlier one had not come further, so that nothing can be compared.
    """
    wanted = [each for each in before if each.step >= step]
    found = [each for each in after if each.step >= 0]
    if not wanted or not found:
        return None
    first = found[0]
    if _same(wanted[0], first):
        return None
    shift = _shift([each for each in before if each.step >= 0], first, len(before) - len(wanted))
    how = (
        "other samples than those that followed the checkpoint"
        if shift is None
        else f"{-shift} batches are replayed"
        if shift < 0
        else f"{shift} batches are skipped"
    )
    return rule("DAT407").finding(
        f"{first.loader} goes on with batch {first.batch} of epoch {first.epoch} after the "
        f"checkpoint of step {step}: {how}",
        where=Location(link=Link.BATCH, step=step, rank=first.rank),
        evidence={"loader": first.loader, "shift": shift, "step": step},
    )


def _same(one: SampleRecord, other: SampleRecord) -> bool:
    if one.indices is not None and other.indices is not None:
        return one.indices == other.indices
    return one.batch_digest == other.batch_digest != 0


def _shift(before: Sequence[SampleRecord], first: SampleRecord, at: int) -> int | None:
    places = [number for number, each in enumerate(before) if _same(each, first)]
    return min((place - at for place in places), key=abs, default=None)
