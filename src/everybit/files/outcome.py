"""What the check of one file came to; outcomes add up to a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.verdict import Skipped


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Findings about one or more files, and what was and was not checked.

    Attributes:
        findings: In the order found.
        checked: `{what: how many}`.
        skipped: Checks that did not run.
        num_bytes: Bytes of the files that were read through.
        stats: More for the verdict's numbers (the newest whole checkpoint).
    """

    findings: list[Finding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    num_bytes: int = 0
    stats: dict[str, Any] = field(default_factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        """Note that a check ran on `number` more things."""
        self.checked[what] = self.checked.get(what, 0) + number

    def add(self, other: Outcome) -> None:
        """Take in another outcome."""
        self.findings += other.findings
        self.skipped += other.skipped
        self.num_bytes += other.num_bytes
        self.stats |= other.stats
        for what, number in other.checked.items():
            self.count(what, number)
