"""Random streams that differ from the start: blamed only where they were drawn from.

The global streams of Python and NumPy start at random where a script does not seed them. As long
as nobody draws from them they are no difference between two runs. A stream has been drawn from when
its state moves; one that was equal and is so no more has moved, and parts the runs there and then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.link import Link
from everybit.core.observation import StepRecord
from everybit.diff.link_difference import LinkDifference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.diff.parting import Parting

    Words = dict[str, tuple[int | None, int | None]]


class Streams:
    """The streams of two records that differ, and those of them that may explain a parting."""

    def __init__(self) -> None:
        self._latest: Words = {}
        self._agreed: set[str] = set()
        self._harmless: set[str] = set()
        self._suspects: set[str] = set()
        self._now: LinkDifference | None = None

    @property
    def unused(self) -> tuple[str, ...]:
        """Streams that differ and explain nothing."""
        names = [name for name, *_ in self._now.differing] if self._now is not None else []
        return tuple(name for name in names if name not in self._suspects)

    def set_aside(
        self, differences: list[LinkDifference], a: StepRecord, b: StepRecord
    ) -> list[LinkDifference]:
        """Keep streams back that have differed from the start; return the other differences."""
        self._now = next((each for each in differences if each.link is Link.RNG), None)
        names = {name for name, *_ in self._now.differing} if self._now is not None else set()
        others = [each for each in differences if each.link is not Link.RNG]
        parted = self._note(_words(a, b), names, others=bool(others))
        return differences if parted else others

    def differ(self, a: Mapping[str, int], b: Mapping[str, int]) -> bool:
        """Do the same for a step of which nothing but streams may differ; return whether it parts.

        Args:
            a: The words of A's streams, by name.
            b: Those of B's.
        """
        names = {name for name, word in a.items() if name in b and b[name] != word}
        here = {name: (a.get(name), b.get(name)) for name in (*a, *b)}
        differing = tuple((name, a[name], b[name]) for name in sorted(names))
        self._now = LinkDifference(link=Link.RNG, differing=differing) if names else None
        return self._note(here, names, others=False)

    def _note(self, here: Words, names: set[str], *, others: bool) -> bool:
        """Take note of the streams of a step; return whether one parts that has agreed before."""
        moved = self._moving(here) & names
        parted = self._agreed & names
        if not others and not parted:
            # Drawn from, and every value of the step agrees all the same.
            self._harmless |= moved
        self._suspects = (moved - self._harmless) | parted
        self._agreed |= here.keys() - names
        self._latest = here
        return bool(parted)

    def blame(self, parting: Parting, after: Sequence[object]) -> Parting:
        """Put the streams that were drawn from in front of the other differences of the parting.

        Args:
            parting: Where a value parts.
            after: What each side recorded next: a stream that moved by then was drawn from in this
                step.
        """
        if self._now is None:
            return parting
        records = [event[2] for event in after if isinstance(event, tuple)]
        one, other = records if len(records) == 2 else (None, None)
        if isinstance(one, StepRecord) and isinstance(other, StepRecord):
            self._suspects |= self._moving(_words(one, other)) - self._harmless
        drawn = tuple(each for each in self._now.differing if each[0] in self._suspects)
        others = tuple(each for each in parting.differences if each.link is not Link.RNG)
        if not drawn:
            return replace(parting, differences=others)
        # Batches are drawn with the random streams, so streams that differ come before the batch.
        return replace(parting, differences=(replace(self._now, differing=drawn), *others))

    def _moving(self, here: Words) -> set[str]:
        return {
            name
            for name, since in self._latest.items()
            if any(
                now is not None and then is not None and now != then
                for now, then in zip(here.get(name, (None, None)), since, strict=True)
            )
        }


def _words(a: StepRecord, b: StepRecord) -> Words:
    sides = [
        {n: w for table in record.tables if table.link is Link.RNG for n, w in table}
        for record in (a, b)
    ]
    return {name: (sides[0].get(name), sides[1].get(name)) for name in {*sides[0], *sides[1]}}
