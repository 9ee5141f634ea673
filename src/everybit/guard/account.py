"""What a Guard checked and what it did not, told at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.change import MAX_LISTED
from everybit.core.verdict import Checked, Coverage, Skipped

if TYPE_CHECKING:
    from everybit.core.config import Config
    from everybit.guard.record import RecordCheck
    from everybit.guard.state import CarriedState


def coverage_of(
    state: CarriedState,
    record: RecordCheck,
    *,
    num_steps: int,
    num_calls: int,
    config: Config,
    fault: str,
) -> Coverage:
    """Return the coverage of a run.

    Args:
        state: The carried state and its counters.
        record: The record and its counters.
        num_steps: Steps on record.
        num_calls: Calls of a root module.
        config: Settings of the Guard.
        fault: The Guard's own error, "" where there was none.
    """
    checked = (
        Checked(what="steps recorded", count=num_steps),
        Checked(what="tests of a tensor at rest", count=state.num_tested),
        Checked(what="tensors under marks", count=state.most_tensors),
        Checked(what="digests recorded", count=record.num_digests),
    )
    skipped = []
    if fault:
        skipped.append(
            Skipped(what="checks", why=f"a fault of everybit's own ended them ({fault})")
        )
    if not num_steps:
        why = "no optimizer stepped while the guard was active"
        if num_calls:
            why += ", and the model was called in training mode, as training does"
        skipped.append(Skipped(what="steps", why=why))
    elif not num_calls:
        why = "no call of a root module was seen: weights were tested at updates only"
        skipped.append(Skipped(what="weights before forward", why=why))
    skipped += _folded(state.skipped)
    skipped += [
        Skipped(what=f"digest of {what}", why=why, promised=False)
        for what, why in sorted(record.unrecorded.items())
    ]
    if config.every > 1:
        why = f"every={config.every}: only every {config.every}th step is checked and recorded"
        skipped.append(Skipped(what="steps between", why=why, promised=False))
    return Coverage(checked=checked, skipped=tuple(skipped))


def stats_of(state: CarriedState) -> dict[str, int]:
    """Return how much was under marks, and how often marks were renewed between steps."""
    return {
        "tensors": state.most_tensors,
        "bytes": state.most_bytes,
        "legitimate_writes": state.num_rebaselined,
    }


def _folded(reasons: dict[str, str]) -> list[Skipped]:
    """Return an entry a tensor, or one for all where many share a reason."""
    by_reason: dict[str, list[str]] = {}
    for label, why in sorted(reasons.items()):
        by_reason.setdefault(why, []).append(label)
    skipped = []
    for why, labels in by_reason.items():
        if len(labels) > MAX_LISTED:
            labels = [f"{len(labels)} tensors ({labels[0]} ...)"]
        skipped += [Skipped(what=f"{label} at rest", why=why) for label in labels]
    return skipped
