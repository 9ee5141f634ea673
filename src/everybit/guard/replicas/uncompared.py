"""What is not compared across ranks, and why, for the coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.verdict import Skipped

if TYPE_CHECKING:
    from collections.abc import Collection

    from everybit.guard.replicas.columns import Columns
    from everybit.guard.replicas.copies import Copies


def not_copies(agreed: Collection[Copies], columns: Columns, num_compared: int) -> list[Skipped]:
    """Return what is not compared, folded by the reason.

    Args:
        agreed: What the ranks have found to be copies.
        columns: What this rank shows.
        num_compared: How many comparisons there were.
    """
    by_why: dict[str, list[str]] = {}
    for copies in agreed:
        for name, why in copies.off.items():
            by_why.setdefault(why, []).append(name)
    if columns.why_local:
        by_why[columns.why_local] = ["copies of the model"]
    by_why |= {why: ["reduced gradients"] for why in sorted(columns.whys_unreduced)}
    if not num_compared and not by_why and agreed:
        by_why["no other rank holds a copy of what this one has"] = ["tensors"]
    return [
        Skipped(what=f"{_folded(names)} across ranks", why=why, promised=False)
        for why, names in by_why.items()
    ]


def _folded(names: list[str]) -> str:
    unique = sorted(set(names))
    return unique[0] if len(unique) == 1 else f"{len(unique)} tensors ({unique[0]} ...)"
