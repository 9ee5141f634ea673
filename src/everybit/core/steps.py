"""A choice of steps as users write it: `3,10-12`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

_PART: Final = re.compile(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?")


@dataclass(frozen=True, slots=True)
class Steps:
    """Chosen steps; all of them where no range is named.

    >>> chosen = Steps.parse("3,10-12")
    >>> [step for step in range(20) if step in chosen]
    [3, 10, 11, 12]
    """

    ranges: tuple[range, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a choice.

        Raises:
            ValueError: The text is none.
        """
        ranges = []
        for part in text.split(","):
            match = _PART.fullmatch(part)
            first = int(match[1]) if match else 0
            last = int(match[2] or match[1]) if match else -1
            if last < first:
                raise ValueError(f"{part.strip()!r} is no step or range of steps, like 3 or 10-12")
            ranges.append(range(first, last + 1))
        return cls(tuple(ranges))

    def __contains__(self, step: int) -> bool:
        return not self.ranges or any(step in each for each in self.ranges)
