"""DAT415: another loader drew from the stream that decides the next training order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.finding import Finding


class OrderMoved:
    """What other loaders did between two epochs of a loader that shuffles.

    Each new iterator of a loader with no generator of its own draws from the global stream of
    torch, and so does the shuffle of one whose sampler has none: how often others were iterated
    between two epochs decides the order of the next. That is only told where it was not the same
    from one pause to the next, or where a generator of the loader's own was drawn from by others.
    """

    def __init__(self) -> None:
        self._usual: dict[str, dict[str, int]] = {}
        self._told: set[str] = set()

    def judge_pause(
        self, loader: str, epoch: int, others: Mapping[str, int], *, step: int, rank: int
    ) -> list[Finding]:
        """Return a finding where a pass too many, or too few, came before an epoch.

        Args:
            loader: The loader that shuffles, by the global stream.
            epoch: The epoch that begins.
            others: Passes over other loaders since it began its epoch before, by name.
            step: Updates finished.
            rank: Rank of the process.
        """
        usual = self._usual.setdefault(loader, {})
        odd = {
            name: (usual[name], number)
            for name, number in others.items()
            if number and usual.get(name, number) != number
        }
        for name, number in others.items():
            if number:
                usual.setdefault(name, number)
        if not odd or loader in self._told:
            return []
        self._told.add(loader)
        name, (before, now) = next(iter(odd.items()))
        return [
            _finding(
                f"the order of epoch {epoch} of {loader} was moved by {name}: it was gone over"
                f" {_times(now)} before it, and {_times(before)} before other epochs, and each"
                " pass draws from the stream that shuffles",
                {"kind": "passes", "loader": loader, "epoch": epoch, "by": name,
                 "passes": now, "usual": before},
                step=step,
                rank=rank,
            )
        ]  # fmt: skip

    def judge_generator(
        self, loader: str, epoch: int, *, left: int, found: int, step: int, rank: int, by: str = ""
    ) -> list[Finding]:
        """Return a finding where a loader's own generator moved between two of its epochs.

        Args:
            loader: The loader.
            epoch: The epoch that begins.
            left: Digest word of the generator's state as the loader's last epoch left it.
            found: The same as this epoch finds it.
            step: Updates finished.
            rank: Rank of the process.
            by: Another loader that has the same generator, and was gone over in between.
        """
        if left == found or loader in self._told or not by:
            return []
        self._told |= {loader, by}  # The other one is moved by this one: one damage.
        return [
            _finding(
                f"the order of epoch {epoch} of {loader} was moved by {by}: both draw from one"
                " generator",
                {"kind": "generator", "loader": loader, "epoch": epoch, "by": by},
                step=step,
                rank=rank,
            )
        ]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _finding(message: str, evidence: dict[str, object], *, step: int, rank: int) -> Finding:
    return rule("DAT415").finding(
        message,
        where=Location(step=step, rank=rank, link=Link.BATCH),
        evidence=evidence,
    )
