"""NUM506: a buffer took a non-finite or impossible value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.place import place_of

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import BufferNumbers, StepNumbers

#: Times by which the norm of running statistics may grow in one step once they have settled.
JUMP: Final = 1e4
#: Updates after which the statistics have forgotten their initial value (momentum 0.1).
SETTLED: Final = 10


@dataclass(slots=True)
class BufferHistory:
    """What each buffer was, a name."""

    norms: dict[str, float] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def judge(self, numbers: StepNumbers) -> Finding | None:
        """Return a finding on the first buffers that became impossible in this step."""
        found: list[tuple[BufferNumbers, str, bool]] = []
        variances = {b.name.rpartition(".")[0]: b for b in numbers.buffers if b.kind == "variance"}
        for buffer in numbers.buffers:
            why, proof = self._why(buffer, variances.get(buffer.name.rpartition(".")[0]))
            if why and buffer.name not in self.told:
                self.told.add(buffer.name)
                found.append((buffer, why, proof))
            elif not why:
                self.told.discard(buffer.name)
        for buffer in numbers.buffers:
            if buffer.norm != self.norms.get(buffer.name):
                self.changes[buffer.name] = self.changes.get(buffer.name, 0) + 1
            if math.isfinite(buffer.norm):
                self.norms[buffer.name] = buffer.norm
        if not found:
            return None
        buffer, why, _ = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        proof = any(exact for _, _, exact in found)
        return rule("NUM506").finding(
            f"buffer {buffer.name}{more} {why} at step {numbers.step}{_losses(numbers)}",
            where=place_of(numbers, Link.FORWARD, label=buffer.name),
            evidence={
                "kind": buffer.kind,
                "norm": _plain(buffer.norm),
                "norm_before": self.norms.get(buffer.name)
                if not math.isfinite(buffer.norm)
                else None,
                "buffers": [each.name for each, _, _ in found[:16]],
                "num_buffers": len(found),
                "losses": [_plain(loss) for loss in numbers.losses],
            },
            certainty=None if proof else Certainty.STRONG,
        )

    def clear(self) -> None:
        """Begin a new phase: statistics may settle elsewhere."""
        self.changes.clear()

    def _why(self, buffer: BufferNumbers, variance: BufferNumbers | None) -> tuple[str, bool]:
        """Say what is impossible about a buffer ("" for nothing), and whether that is proof."""
        if buffer.was_finite and not buffer.finite:
            return "is not finite", True
        if buffer.negative:
            return "holds a variance below zero", True
        before = self.norms.get(buffer.name)
        settled = self.changes.get(buffer.name, 0) >= SETTLED
        if buffer.kind == "other" or before is None or not settled or not buffer.was_finite:
            return "", False
        usual = before
        if buffer.kind == "mean" and variance is not None:
            # A mean may well be near zero; it moves within the spread of what it is the mean of.
            spread = self.norms.get(variance.name, 0.0)
            usual += math.sqrt(spread * math.sqrt(variance.size))
        if usual > 0 and buffer.norm > JUMP * usual:
            return f"grew {buffer.norm / usual:.3g}-fold in one step", False
        return "", False


def _plain(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


def _losses(numbers: StepNumbers) -> str:
    normal = numbers.losses and all(math.isfinite(loss) for loss in numbers.losses)
    return f", while the loss is {numbers.loss:.6g}" if normal else ""
