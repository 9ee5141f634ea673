"""DAT415: passes over another loader moved the next training order."""

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

    Each new iterator draws from the stream that its loader was given: a generator, else the global
    stream of torch; and so does a shuffle. How often others that have the same stream were gone
    over between two epochs decides the order of the next.

    That alone is no fault: passes that alternate the same way each epoch give the same order in
    every run of the script. What tells of one is a pause unlike the others, a validation pass more:
    the order from there on hangs on how often was validated. Loaders that are trained on count for
    nothing: how often they are gone over is the training itself.
    """

    def __init__(self) -> None:
        self._usual: dict[str, dict[str, int]] = {}
        self._told: set[str] = set()

    def judge_pause(
        self,
        loader: str,
        epoch: int,
        others: Mapping[str, int],
        *,
        step: int,
        rank: int,
        generator: bool = False,
        seeded: bool = False,
    ) -> list[Finding]:
        """Return a finding where a pass too many, or too few, came before an epoch.

        Args:
            loader: The loader that shuffles.
            epoch: The epoch that begins.
            others: Passes since it began its epoch before over loaders with the same stream that
                are not trained on, by name.
            step: Updates finished.
            rank: Rank of the process.
            generator: The stream is a generator that all of them were given, not the global one.
            seeded: The stream was seeded since: no pass before that matters.
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
        if not odd or seeded or loader in self._told:
            return []
        self._told.add(loader)
        name, (before, now) = next(iter(odd.items()))
        if generator:
            self._told.add(name)  # That one is moved by this one: one damage.
        how = "both draw from one generator" if generator else (
            "each pass draws from the stream that shuffles"
        )  # fmt: skip
        return [
            rule("DAT415").finding(
                f"the order of epoch {epoch} of {loader} was moved by {name}: it was gone over"
                f" {_times(now)} before it, and {_times(before)} before other epochs, and {how}",
                where=Location(step=step, rank=rank, link=Link.BATCH),
                evidence={
                    "kind": "generator" if generator else "passes",
                    "loader": loader,
                    "epoch": epoch,
                    "by": name,
                    "passes": now,
                    "usual": before,
                },
            )
        ]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
