"""From several computations of a step to what is told of it: one damage, one finding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everybit.core.link import Link
from everybit.detect.step_mismatch import StepMismatch, judge_nondeterminism, judge_step
from everybit.guard.stepping.attempt import is_damage
from everybit.guard.stepping.comparing import parting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.guard.stepping.attempt import Attempt


class Settlement:
    """What several computations of a step say together.

    Args:
        attempts: All of them, in order; the last one counts.
        step: Updates finished or skipped before it.
        rank: Rank of this process.
        num_exact: Steps of this run that have repeated exactly before.
    """

    def __init__(
        self, attempts: Sequence[Attempt], *, step: int, rank: int, num_exact: int
    ) -> None:
        last = attempts[-1]
        self._attempts = attempts
        self._step = step
        self._rank = rank
        self._num_exact = num_exact
        self.alike = [each for each in attempts if each is last or each.equals(last)]
        self.apart = [each for each in attempts if each not in self.alike]
        self.mismatches = [
            (each, self._mismatch(each))
            for each in self.apart
            if not any(map(is_damage, each.findings))
        ]

    @property
    def is_local(self) -> bool:
        """Whether anything went wrong before this rank's gradients met those of others."""
        damaged = any(map(is_damage, (f for each in self._attempts for f in each.findings)))
        return damaged or any(found.link is not Link.REDUCE for _, found in self.mismatches)

    def findings(self, *, is_elsewhere: bool = False) -> list[Finding]:
        """Return what is told.

        Args:
            is_elsewhere: Another rank knows better where it went wrong: what only reached this one
                with the reduced gradients is left to it.
        """
        told: dict[str, Finding] = {}
        repeated = len(self.alike) > 1
        for attempt in self._attempts:
            counts = attempt in self.alike
            for finding in attempt.findings:
                is_sign = finding.rule.startswith("NUM")
                if not counts and finding.rule in _signs(attempt):
                    continue  # It follows from damage that is told, and undone.
                if is_sign and (not counts or attempt is not self._attempts[-1]):
                    continue  # Signs of damage that is undone; or told by the last one.
                if is_sign and repeated:
                    finding = _with(finding, {"replayed": "exactly"})
                elif is_damage(finding) and repeated:
                    finding = (
                        _unused(finding)
                        if counts
                        else _rewound(finding, _signs(attempt), len(self._attempts))
                    )
                told.setdefault(finding.id, finding)
        if not is_elsewhere or self.is_local:
            for _, found in self.mismatches:
                if not (is_elsewhere and found.link is Link.REDUCE):
                    finding = judge_step(found)
                    told.setdefault(finding.id, finding)
        return list(told.values())

    def nondeterminism(self) -> list[Finding]:
        """Return CMP703, and what else was found in the computation that counts."""
        own = self._attempts[-1].findings
        return [*own, *(judge_nondeterminism(found) for _, found in self.mismatches[-1:])]

    def _mismatch(self, wrong: Attempt) -> StepMismatch:
        return StepMismatch(
            step=self._step,
            rank=self._rank,
            attempt=wrong.number,
            num_alike=len(self.alike),
            num_apart=len(self.apart),
            num_exact=self._num_exact,
            signs=_signs(wrong),
            **parting(self._attempts[-1], wrong),
        )


def _signs(attempt: Attempt) -> tuple[str, ...]:
    """Return the rules of what follows from the damage of an attempt: replicas differ then too."""
    at_rest = any(is_damage(f) and f.rule.startswith("MEM") for f in attempt.findings)
    of = ("NUM", "RNK") if at_rest else ("NUM",)
    return tuple(dict.fromkeys(f.rule for f in attempt.findings if f.rule.startswith(of)))


def _with(finding: Finding, evidence: dict[str, Any]) -> Finding:
    return replace(finding, evidence=dict(finding.evidence) | evidence)


def _unused(finding: Finding) -> Finding:
    """Return a finding of damage that the step did not use: computed again it came to the same."""
    return replace(
        _with(finding, {"replayed": "exactly"}),
        message=f"{finding.message}; computed again, the step came to the same bits",
        remedy="Nothing is lost; if it happens again on this machine, test its memory.",
    )


def _rewound(finding: Finding, signs: tuple[str, ...], count: int) -> Finding:
    """Return a finding as undone: the step was computed again from what it began with."""
    evidence: dict[str, Any] = {"rewound": True, "computations": count}
    if signs:
        evidence["signs"] = list(signs)
    return replace(
        _with(finding, evidence),
        message=f"{finding.message}; the step was put back and computed again",
        remedy="Nothing is lost; if it happens again on this machine, test its memory.",
    )
