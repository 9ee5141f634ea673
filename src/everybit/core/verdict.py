"""Verdicts: findings, what was checked, what was not, and the exit code that follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import FindingsError
from everybit.core.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.divergence import Divergence

SCHEMA: Final = "everybit.verdict/1"
#: Verbs whose warnings must not pass unseen.
_GATES: Final = frozenset({"scan", "lint"})


def default_fail_on(command: str) -> Severity:
    """Return the severity from which on a verb exits with 1: `warning` of those that are gates."""
    return Severity.WARNING if command in _GATES else Severity.ERROR


class Status(StrEnum):
    """The three outcomes of a verb. "Could not check" is never "clean"."""

    CLEAN = "clean"
    FINDINGS = "findings"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A check that ran: on how many things."""

    what: str
    count: int

    def to_json(self) -> dict[str, Any]:
        """Return the form of `everybit.verdict/1`."""
        return {"what": self.what, "count": self.count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A check that did not run, why, and whether the verb had promised it."""

    what: str
    why: str
    promised: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the form of `everybit.verdict/1`."""
        return {"what": self.what, "why": self.why, "promised": self.promised}


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What a verdict stands on."""

    checked: tuple[Checked, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the form of `everybit.verdict/1`."""
        return {
            "checked": [item.to_json() for item in self.checked],
            "skipped": [item.to_json() for item in self.skipped],
        }

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(checked=self.checked + other.checked, skipped=self.skipped + other.skipped)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a checking verb answers.

    Attributes:
        command: The verb.
        target: What it was asked about.
        findings: Most severe first.
        coverage: What was and was not checked.
        stats: Numbers about the work itself (bytes, seconds, overhead).
        first: `diff` only: the first value that parts.
        has_first: Whether `first` belongs in the JSON (a diff that found nothing says null).
        explained_by: `diff` only: differences of environment and code that precede `first`.
        comparison: `diff` of files only: class, headline and table by tensor, JSON-ready.
    """

    command: str
    target: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    coverage: Coverage = field(default_factory=Coverage)
    stats: Mapping[str, Any] = field(default_factory=dict)
    first: Divergence | None = None
    has_first: bool = False
    explained_by: tuple[Mapping[str, Any], ...] = ()
    comparison: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if len(self.findings) > 1 or not isinstance(self.findings, tuple):
            ordered = sorted(self.findings, key=lambda finding: -finding.severity.rank)
            object.__setattr__(self, "findings", tuple(ordered))

    @property
    def status(self) -> Status:
        """`findings`, else `inconclusive` when a promised check did not run, else `clean`."""
        if self.findings:
            return Status.FINDINGS
        if any(item.promised for item in self.coverage.skipped):
            return Status.INCONCLUSIVE
        return Status.CLEAN

    @property
    def ok(self) -> bool:
        """Whether everything promised was checked and nothing was found."""
        return self.status is Status.CLEAN

    def exit_code(self, fail_on: Severity | None = None) -> int:
        """Return 1 for a finding at or above a severity, else 3 for a missed check, else 0.

        Args:
            fail_on: The severity; `default_fail_on` of the verb where None.
        """
        fail_on = fail_on or default_fail_on(self.command)
        if any(finding.severity.rank >= fail_on.rank for finding in self.findings):
            return 1
        return 3 if any(item.promised for item in self.coverage.skipped) else 0

    def raise_for_findings(self) -> None:
        """Raise `FindingsError` when there is any finding."""
        if self.findings:
            first = self.findings[0]
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            raise FindingsError(
                f"{first.rule} {first.message}{more}", todo=first.remedy, findings=self.findings
            )

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "command": self.command,
            "target": list(self.target),
            "status": str(self.status),
            "findings": [finding.to_json() for finding in self.findings],
            "coverage": self.coverage.to_json(),
            "stats": dict(self.stats),
        }
        if self.has_first:
            data["first"] = self.first.to_json() if self.first else None
            data["explained_by"] = [dict(item) for item in self.explained_by]
        if self.comparison is not None:
            data["comparison"] = dict(self.comparison)
        return data
