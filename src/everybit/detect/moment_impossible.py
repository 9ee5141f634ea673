"""NUM507: optimizer state that cannot be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.core.finding import Certainty, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.place import place_of

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers


def adam_bound(beta1: float, beta2: float) -> float:
    """Return the least C with `m ** 2 <= C * v` for Adam's moments, whatever the gradients were.

    From zero, m = (1 - b1) sum b1^k g_k and v = (1 - b2) sum b2^k g_k^2. By Cauchy-Schwarz
    m^2 <= (1 - b1)^2 sum (b1^2 / b2)^k * sum b2^k g_k^2, and with a geometric series
    C = (1 - b1)^2 / ((1 - b2) (1 - b1^2 / b2)). The bound survives a change of betas: one update
    keeps m^2 <= C v wherever C is at least that of its betas, so the largest C of all betas ever
    used holds. Infinite where b1^2 >= b2: then nothing bounds m by v.

    >>> round(adam_bound(0.9, 0.999), 1)
    52.9
    >>> adam_bound(0.99, 0.9)
    inf
    """
    if not (0 <= beta1 < 1 and 0 < beta2 < 1) or beta1 * beta1 >= beta2:
        return float("inf")
    return (1 - beta1) ** 2 / ((1 - beta2) * (1 - beta1 * beta1 / beta2))


@dataclass(slots=True)
class MomentHistory:
    """What was told already."""

    told: set[tuple[str, str, str]] = field(default_factory=set)

    def judge(self, numbers: StepNumbers) -> Finding | None:
        """Return a finding on the moments that are impossible and were not told yet."""
        now = {(fault.parameter, fault.tensor, fault.what) for fault in numbers.moments}
        news = [
            fault
            for fault in numbers.moments
            if (fault.parameter, fault.tensor, fault.what) not in self.told
        ]
        self.told |= now
        if not news:
            return None
        first = news[0]
        more = f" (and {len(news) - 1} more)" if len(news) > 1 else ""
        return rule("NUM507").finding(
            f"{first.tensor} of {first.parameter}{more} {first.what} at step {numbers.step}",
            where=place_of(
                numbers,
                Link.STATE,
                label=first.parameter,
                tensor=first.tensor,
                elements=first.elements or None,
            ),
            evidence={
                "num_bad": first.num_bad,
                "confirmed": first.exact,
                "others": [f"{each.tensor} of {each.parameter}" for each in news[1:17]],
                **first.evidence,
            },
            severity=None if first.exact else Severity.WARNING,
            certainty=None if first.exact else Certainty.STRONG,
        )
