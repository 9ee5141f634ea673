"""What a diff found, ready for a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.divergence import Divergence
    from everybit.core.finding import Finding
    from everybit.core.verdict import Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a diff found.

    Attributes:
        findings: DIF181: one for two runs, one for each cause of two files' differences.
        first: The first value that parts.
        explained_by: Differences that precede it; empty where nothing parts.
        coverage: What was and was not compared.
        stats: Counts.
        comparison: Of two files: class, headline and table by tensor, JSON-ready.
    """

    findings: tuple[Finding, ...]
    first: Divergence | None
    coverage: Coverage
    stats: Mapping[str, Any]
    explained_by: tuple[Mapping[str, Any], ...] = field(default=())
    comparison: Mapping[str, Any] | None = None
