"""The capsules of a step: where a run kept one, its program need not run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import EverybitError
from everybit.core.reanchored import How, Reanchored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.diff.side import RunSide

#: What a repeat of a capsule gives where the first computation was wrong.
_RIGHT: Final = frozenset({"right", "near-right"})


def try_capsules(sides: Mapping[str, RunSide], step: int, rank: int) -> Reanchored | None:
    """Compute the capsules of a step again, on the CPU.

    A run keeps one where a part of its model, computed a second time from the same inputs, gave
    other bits (CMP701).

    Returns:
        What follows, where a capsule says that what its run computed first was wrong; else None.
    """
    for name, side in sides.items():
        for attempt in _attempts(Path(side.path), step):
            if attempt["result"] in _RIGHT and attempt["rank"] == rank:
                part = attempt["module"] or "the model"
                return Reanchored(
                    how=How.TRANSIENT,
                    step=step,
                    rank=rank,
                    side=name,
                    module=attempt["module"],
                    detail=f"{part} was computed again from the capsule that run {name} kept of "
                    f"step {step}: {attempt['meaning']}",
                )
    return None


def _attempts(run: Path, step: int) -> list[dict[str, Any]]:
    from everybit.api.replay import replay

    if not (run / "capsules").is_dir():
        return []
    try:
        told: list[dict[str, Any]] = list(replay(run, step=step).stats["attempts"])
    except EverybitError:
        return []  # None of this step, or a damaged one: the program may still be run again.
    return told
