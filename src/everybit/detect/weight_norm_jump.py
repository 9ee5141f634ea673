"""NUM508: a parameter's norm moved as no update explains."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.place import place_of

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import Replacement, StepNumbers

#: Updates of a parameter before its usual pace is known.
ENOUGH: Final = 8
#: Times the norm itself by which an update changes it, to be a jump.
_TIMES: Final = 2.0
#: Times the largest change of late.
_BEYOND_PACE: Final = 10.0
#: What the largest change of late fades by a step.
_FADE: Final = 0.95
#: Times the norm by which values that were replaced differ, to be told.
_TIMES_REPLACED: Final = 3.0
#: Cosine below which replaced values have nothing to do with those before.
_UNRELATED: Final = 0.2


@dataclass(slots=True)
class WeightHistory:
    """Norm and pace of each parameter, by its label."""

    norms: dict[str, float] = field(default_factory=dict)
    pace: dict[str, float] = field(default_factory=dict)
    num_updates: int = 0

    def judge_start(self, numbers: StepNumbers) -> Finding | None:
        """Return a finding where parameters were replaced since the last update."""
        broken = [r for r in numbers.replaced if math.isfinite(r.before) > math.isfinite(r.after)]
        if broken:
            return self._tell_replaced(numbers, broken, proof=True)
        strange = [r for r in numbers.replaced if _is_strange(r)]
        if not strange or self.num_updates < ENOUGH:
            return None
        return self._tell_replaced(numbers, strange, proof=False)

    def judge(self, numbers: StepNumbers) -> Finding | None:
        """Return a finding where the update moved norms as none before it did."""
        if numbers.skipped or not numbers.weight_norms:
            return None
        before = self.norms | {each.parameter: each.after for each in numbers.replaced}
        now = dict(zip(numbers.names, numbers.weight_norms, strict=True))
        broken = [
            name
            for name, norm in now.items()
            if not math.isfinite(norm) and math.isfinite(before.get(name, math.nan))
        ]
        matrices = {
            name for name, flag in zip(numbers.names, numbers.matrices, strict=False) if flag
        }
        jumps = [name for name in matrices if self._jumped(name, before, now)]
        finding = None
        if broken:
            finding = self._tell_broken(numbers, broken, before)
        elif jumps and self.num_updates >= ENOUGH:
            finding = self._tell_jump(numbers, jumps, before, now)
        for name, norm in now.items():
            if math.isfinite(norm):
                change = abs(norm - before.get(name, norm))
                self.pace[name] = max(_FADE * self.pace.get(name, 0.0), change)
                self.norms[name] = norm
            else:
                self.norms[name] = norm
        self.num_updates += 1
        return finding

    def clear(self) -> None:
        """Begin a new phase."""
        self.pace.clear()
        self.num_updates = 0

    def _jumped(self, name: str, before: dict[str, float], now: dict[str, float]) -> bool:
        old, new, pace = before.get(name, 0.0), now[name], self.pace.get(name, 0.0)
        if not (old > 0 and pace > 0 and math.isfinite(new)):
            return False
        large, small = max(old, new), min(old, new)
        return large > _TIMES * small and abs(new - old) > _BEYOND_PACE * pace

    def _tell_broken(
        self, numbers: StepNumbers, broken: list[str], before: dict[str, float]
    ) -> Finding:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        return rule("NUM508").finding(
            f"{broken[0]}{more} became non-finite in the update of step {numbers.step}, from "
            "finite gradients",
            where=place_of(numbers, Link.UPDATE, label=broken[0]),
            evidence={
                "parameters": broken[:16],
                "num_parameters": len(broken),
                "norm_before": before[broken[0]],
                **_pace_of(numbers, broken[0]),
            },
            severity=Severity.ERROR,
            certainty=Certainty.PROOF,
        )

    def _tell_jump(
        self,
        numbers: StepNumbers,
        jumps: list[str],
        before: dict[str, float],
        now: dict[str, float],
    ) -> Finding:
        first = max(jumps, key=lambda name: abs(math.log(max(now[name], 1e-300) / before[name])))
        more = f" (and {len(jumps) - 1} more)" if len(jumps) > 1 else ""
        pace = self.pace[first]
        return rule("NUM508").finding(
            f"the update of step {numbers.step} moved the norm of {first}{more} from "
            f"{before[first]:.6g} to {now[first]:.6g}; the largest change of late was {pace:.3g}",
            where=place_of(numbers, Link.UPDATE, label=first),
            evidence={
                "sensor": True,
                "norm_before": before[first],
                "norm_after": now[first],
                "largest_change_of_late": pace,
                "parameters": sorted(jumps)[:16],
                "num_parameters": len(jumps),
                **_pace_of(numbers, first),
            },
        )

    def _tell_replaced(
        self, numbers: StepNumbers, found: list[Replacement], *, proof: bool
    ) -> Finding:
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        how = (
            "is not finite"
            if proof
            else f"went from norm {first.before:.6g} to {first.after:.6g}"
            if not first.cosine < _UNRELATED
            else f"has nothing to do with what it was (cosine {first.cosine:.2f})"
        )
        return rule("NUM508").finding(
            f"{first.parameter}{more} was written between two updates and {how} at step "
            f"{numbers.step}",
            where=place_of(numbers, Link.LOAD, label=first.parameter),
            evidence={
                "norm_before": first.before,
                "norm_after": first.after if math.isfinite(first.after) else str(first.after),
                "cosine": round(first.cosine, 4) if math.isfinite(first.cosine) else None,
                "parameters": [each.parameter for each in found[:16]],
                "num_parameters": len(found),
                "all_rewritten": numbers.rewritten,
            },
            severity=Severity.ERROR if proof else None,
            certainty=Certainty.PROOF if proof else None,
        )


def _is_strange(each: Replacement) -> bool:
    large, small = max(each.before, each.after), min(each.before, each.after)
    if not (math.isfinite(large) and each.before > 0):
        return False
    return large > _TIMES_REPLACED * small or each.cosine < _UNRELATED


def _pace_of(numbers: StepNumbers, name: str) -> dict[str, Any]:
    index = numbers.names.index(name)
    norms = numbers.gradient_norms
    return {
        "gradient_norm": norms[index] if index < len(norms) else None,
        "lr": list(numbers.rates),
    }
