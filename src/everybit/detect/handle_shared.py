"""DAT410: forked workers read through one open file, or share a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.finding import Certainty, Location
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """Something open in the data set when its workers were forked.

    Attributes:
        path: Where the data set holds it.
        kind: `file`, `socket`, `sqlite3` or `lmdb`.
        name: Name of the file, as far as there is one.
        moved: The position that all processes share has moved since: somebody read through it.
    """

    path: str
    kind: str
    name: str = ""
    moved: bool = False


def judge_handles(
    handles: Sequence[Handle],
    *,
    loader: str,
    epoch: int,
    num_workers: int,
    step: int,
    rank: int,
) -> list[Finding]:
    """Return what is wrong with handles that several workers inherited.

    A file whose shared position stays where it was is not read through: every worker opened its
    own, or all read at given positions (`os.pread`, a memory map). One worker alone shares with
    nobody.

    Args:
        handles: What was open when the workers were forked.
        loader: Name of the loader.
        epoch: Which pass over it.
        num_workers: Worker processes.
        step: Updates finished.
        rank: Rank of the process.
    """
    if num_workers < 2:
        return []
    found = []
    for handle in handles:
        if handle.kind == "file" and not handle.moved:
            continue
        is_file = handle.kind == "file"
        called = f" ({handle.name})" if handle.name else ""
        what = (
            f"{num_workers} workers of {loader} read through one open file, {handle.path}{called}:"
            " they move each other's position"
            if is_file
            else f"{num_workers} workers of {loader} inherited one open {handle.kind} connection,"
            f" {handle.path}"
        )
        found.append(
            rule("DAT410").finding(
                what,
                where=Location(step=step, rank=rank, link=Link.BATCH),
                evidence={
                    "kind": handle.kind,
                    "loader": loader,
                    "epoch": epoch,
                    "attribute": handle.path,
                    "name": handle.name,
                    "num_workers": num_workers,
                },
                certainty=None if is_file else Certainty.WEAK,
            )
        )
    return found
