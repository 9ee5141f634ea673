"""One computation of a step: what it found, what it came to, and what is written of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from everybit.core.finding import Severity
from everybit.probe.digest import flatten, grid_of, plain_word, readable
from everybit.probe.state.copies import pieces_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.boundary import Boundary
    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment
    from everybit.guard.stepping.trace import Trace
    from everybit.probe.state import State

#: Rules of damage itself; what else is found may follow from it, or from the data.
_DAMAGE = ("MEM", "CMP", "RNK")


class Attempt:
    """A computation of a step under way, or done.

    Args:
        number: From 1.
        trace: Notes every value on the way; None where nobody asked.

    Attributes:
        value: What the step's function returned.
        error: What it raised instead.
        findings: What was found in it.
        steps: What is to be written of its updates: step and facts.
        end: The carried state as it left it; None where nothing is compared.
    """

    def __init__(self, number: int, trace: Trace | None = None) -> None:
        self.number = number
        self.trace = trace
        self.value: Any = None
        self.error: Exception | None = None
        self.findings: list[Finding] = []
        self.steps: list[tuple[int, dict[str, Any]]] = []
        self.end: State | None = None
        self._words: list[tuple[str, str]] = []

    def see(self, boundary: Boundary, moment: Moment) -> None:
        """Take what a boundary offers."""
        if self.trace is not None:
            self.trace.see(boundary, moment)

    def found(self, findings: Sequence[Finding]) -> None:
        """Take what was found."""
        self.findings += findings

    def step(self, step: int, facts: dict[str, Any]) -> None:
        """Take what is to be written of an update."""
        self.steps.append((step, facts))

    def close(self, end: State) -> None:
        """Take what the computation came to."""
        self.end = end
        self._words = list(_words(self.value))

    @property
    def is_damaged(self) -> bool:
        """Whether damage was found that this computation may have used."""
        return self.error is not None or any(is_damage(finding) for finding in self.findings)

    @property
    def is_suspect(self) -> bool:
        """Whether anything was found that calls for a second computation."""
        return self.is_damaged or any(
            finding.severity is not Severity.NOTE and not _is_undone(finding)
            for finding in self.findings
            if finding.rule.startswith((*_DAMAGE, "NUM"))
        )

    def equals(self, other: Attempt) -> bool:
        """Whether both came to the same bits, on the same way."""
        if self.end is None or other.end is None or self._words != other._words:
            return False
        if self.error is not None or other.error is not None:
            return False
        if not self.end.equals(other.end):
            return False
        if self.trace is None or other.trace is None:
            return True
        mine, theirs = self.trace.events, other.trace.events
        return len(mine) == len(theirs) and all(
            a.key == b.key and a.equals(b) for a, b in zip(mine, theirs, strict=True)
        )

    def returned_otherwise(self, other: Attempt) -> bool:
        """Whether the two returned different values."""
        return self._words != other._words


def is_damage(finding: Finding) -> bool:
    """Whether a finding is damage, for certain, that was used or is still there."""
    certain = finding.severity is Severity.ERROR
    return certain and finding.rule.startswith(_DAMAGE) and not _is_undone(finding)


def _is_undone(finding: Finding) -> bool:
    """Whether the right bits were back before anything used the wrong ones."""
    return bool(finding.evidence.get("healed")) and not finding.evidence.get("tainted")


def _words(value: Any) -> Any:
    for path, leaf in flatten(value):
        if isinstance(leaf, torch.Tensor):
            for suffix, piece in pieces_of(leaf.detach()):
                if readable(piece):
                    yield path + suffix, grid_of(piece).hex
        else:
            word = plain_word(leaf)
            if word is not None:
                yield path, f"{word:016x}"
