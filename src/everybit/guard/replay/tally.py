"""What replay has repeated in a run, and what it has not, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.core.verdict import Checked, Coverage, Skipped

if TYPE_CHECKING:
    from everybit.guard.replay.record import CallRecord
    from everybit.guard.replay.repeat import Repeated


@dataclass(slots=True, eq=False)
class Tally:
    """Counts of one run.

    Attributes:
        calls: Calls that were repeated.
        gradients: Gradients of these that were compared.
        late: Steps whose calls were made again after their gradients were doubted.
        noisy: Calls of a model that does not repeat.
        preflight: Operations that were repeated before the run.
        skipped: Calls that were not repeated, by the reason.
        fault: What ended replay, "" while it goes on.
    """

    calls: int = 0
    gradients: int = 0
    late: int = 0
    noisy: int = 0
    preflight: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    fault: str = ""

    def count(self, record: CallRecord, repeated: Repeated) -> None:
        """Count a call that was repeated."""
        self.calls += 1
        if record.graph is not None:
            self.gradients += len(repeated.words) * len(record.graph.out)
        if repeated.no_backward:
            self.skipped[f"backward: {repeated.no_backward}"] += 1

    def coverage(self, *, promised: bool, preflight: bool) -> Coverage:
        """Return how many calls were repeated, and which could not be.

        Args:
            promised: Whether the program has asked for replay.
            preflight: Whether it has asked for that.
        """
        counts = {
            "calls of a model computed again": self.calls,
            "gradients of these calls computed again": self.gradients,
            "steps computed again for their gradients": self.late,
            "operations of the first call, repeated before the run": self.preflight,
        }
        checked = [Checked(what=what, count=count) for what, count in counts.items() if count]
        skipped = [
            Skipped(
                what=f"{count} calls of a model again",
                why=why,
                promised=promised and not self.calls,
            )
            for why, count in self.skipped.items()
        ]
        if self.noisy:
            what = f"{self.noisy} calls of a model again"
            skipped.append(Skipped(what=what, why="the model does not repeat", promised=False))
        if preflight and self.preflight:
            what = "the loss, the update and other code outside the model: whether they repeat"
            why = "hooks see the model only; guard.step repeats whole steps"
            skipped.append(Skipped(what=what, why=why, promised=False))
        elif preflight:
            whys = "; ".join(self.skipped) or "no backward pass came through a model"
            skipped.append(Skipped(what="preflight", why=whys))
        if self.fault:
            skipped.append(Skipped(what="calls of a model again", why=self.fault))
        return Coverage(checked=tuple(checked), skipped=tuple(skipped))
