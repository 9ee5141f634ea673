"""What is to be put back into one file, and what stands behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.finding import Certainty, Finding
    from everybit.core.verdict import Skipped


class Evidence(StrEnum):
    """What tells the right bytes."""

    CHECKSUM = "the member's own CRC-32"
    RECORDS = "the archive's other records"
    LEAF = "CRC-32 and digest of the sealed leaf"
    MANIFEST = "the manifest"
    COPY = "another copy"
    PARITY = "parity"
    FILES = "the files that it protects"
    TWIN = "its other copy in the file"
    MAJORITY = "the majority of the copies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """Bytes to be put back.

    Attributes:
        start: First byte in the file.
        end: Last byte, excluded.
        evidence: What tells them.
        certainty: `proof` where a digest holds them, `strong` where a second witness agrees.
        fetch: Returns the bytes; may compute them anew each time.
        num_bytes: How many of them differ from what is there, where that is known.
        source: Which file they come from, where another one gives them.
        witnesses: What else speaks for them.
        against: What speaks against them.
        chance: Probability that larger damage looks like this one, before the witnesses.
    """

    start: int
    end: int
    evidence: Evidence
    certainty: Certainty
    fetch: Callable[[], bytes]
    num_bytes: int | None = None
    source: str = ""
    witnesses: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    chance: float | None = None


@dataclass(slots=True, kw_only=True)
class Mending:
    """The repair of one file: what is wrong, what is put back, what is lost.

    Attributes:
        path: The file; may not exist.
        name: Its path relative to the target, for findings.
        size_bytes: The size it should have.
        findings: The damage, as `verify` tells it.
        mends: What can be put back, in no order.
        lost: Damaged ranges that nothing restores.
        why_lost: Why not, as one clause.
        proves: Looks at the written file; returns what is wrong with it, or "".
        keep: The original is to be kept whatever was asked, and why.
        skipped: What could not be checked.
        checked: `{what: how many}` of what was.
        num_bytes: Bytes read.
    """

    path: Path
    name: str
    size_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    mends: list[Mend] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    why_lost: str = ""
    proves: Callable[[Path], str] = lambda _: ""
    keep: str = ""
    skipped: list[Skipped] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    num_bytes: int = 0

    @property
    def whole(self) -> bool:
        """Whether everything that is damaged can be put back."""
        return not self.lost and not self.why_lost

    def certainty_rank(self) -> int:
        """Return 0 where every mend is proven, else the place of the weakest certainty."""
        order = ["proof", "strong", "weak"]
        return max((order.index(str(mend.certainty)) for mend in self.mends), default=0)
