"""All judges of numerics together: one event is told once, by the rule of its cause.

The same code judges live, at three points of a step (`loss` when backward begins, `start` before
the update, `end` after it), and afterwards, over the numbers that a run's record keeps (`judge`).

Within a step what lies upstream is told, and what follows from it is folded into it: a poisoned
buffer before the loss, the loss before the gradients, these before the weights. Non-finite values
spread, so that nothing about them is told again until a step is finite throughout. A sensor keeps
quiet for some steps after anything was told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.core.numbers import numbers_of
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.buffer_poisoned import BufferHistory
from everybit.detect.gradient_nonfinite import judge_gradients
from everybit.detect.gradient_spike import GradientBand
from everybit.detect.loss_diverging import Divergence
from everybit.detect.loss_jitter import Jitter
from everybit.detect.loss_nonfinite import judge_loss
from everybit.detect.loss_spike import LossBand
from everybit.detect.moment_impossible import MomentHistory
from everybit.detect.steps_all_skipped import Skips
from everybit.detect.update_missing import judge_movements
from everybit.detect.weight_norm_jump import WeightHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers
    from everybit.core.observation import StepRecord

#: Steps for which sensors keep quiet after something was told.
QUIET: Final = 16
#: Factor between two steps' learning rates that no schedule's slope has.
RATE_JUMP: Final = 1.6
#: Rules about a loss or a gradient out of its band.
_SPIKES: Final = ("NUM503", "NUM504")


@dataclass(slots=True)
class Stream:
    """What is remembered of one optimizer's steps."""

    losses: LossBand = field(default_factory=LossBand)
    gradients: GradientBand = field(default_factory=GradientBand)
    jitter: Jitter = field(default_factory=Jitter)
    divergence: Divergence = field(default_factory=Divergence)
    skips: Skips = field(default_factory=Skips)
    weights: WeightHistory = field(default_factory=WeightHistory)
    rates: tuple[float, ...] = ()
    rate_rose_at: int | None = None
    has_losses: bool = False

    def forget_bands(self) -> None:
        """Clear what is measured against the last steps."""
        self.losses.clear()
        self.gradients.clear()
        self.jitter.clear()


class NumericsJudge:
    """Judge the numbers of steps, in order.

    Args:
        rank: Rank of the process, for the findings.
    """

    def __init__(self, rank: int = 0) -> None:
        self.num_steps = 0
        self.num_folded = 0
        self.num_phases = 0
        self.broken_since: int | None = None
        self.broken_spans: list[tuple[int, int]] = []
        self._rank = rank
        self._streams: dict[str, Stream] = {}
        self._buffers = BufferHistory()
        self._moments = MomentHistory()
        self._told_at: int | None = None  # The step of the last error, with what follows from it.
        self._quiet_until = -1
        self._last_rule = ""

    def judge(self, numbers: StepNumbers) -> list[Finding]:
        """Judge a step as a whole."""
        return [*self.loss(numbers), *self.start(numbers), *self.end(numbers)]

    def loss(self, numbers: StepNumbers) -> list[Finding]:
        """Judge the losses, as backward begins or once they are known."""
        found = judge_loss(numbers)
        return self._tell(numbers, found, breaks=True) if found else []

    def start(self, numbers: StepNumbers) -> list[Finding]:
        """Judge what an update is about to use: weights, moments, gradients."""
        stream = self._stream(numbers)
        told: list[Finding] = []
        found = stream.weights.judge_start(numbers)
        if found is not None:
            breaks = found.severity is Severity.ERROR
            told += self._tell(numbers, found, breaks=breaks, sensor=not breaks)
        told += self._tell(numbers, self._moments.judge(numbers))
        return told + self._tell(numbers, judge_gradients(numbers), breaks=True)

    def end(self, numbers: StepNumbers) -> list[Finding]:
        """Judge a finished step; what `loss` and `start` have told is not told again."""
        self.num_steps += 1
        stream = self._stream(numbers)
        self._watch_phase(numbers, stream)
        # The moments first: what they break shows in the weights.
        told = self._tell(numbers, self._moments.judge(numbers))
        poisoned = any(each.was_finite and not each.finite for each in numbers.buffers)
        told += self._tell(numbers, self._buffers.judge(numbers), breaks=poisoned)
        found = stream.weights.judge(numbers)
        if found is not None and found.severity is Severity.ERROR:
            told += self._tell(numbers, found, breaks=True)
            found = None
        for movement in judge_movements(numbers):
            told += self._tell(numbers, movement)
        stream.has_losses |= bool(numbers.losses)
        adversarial = sum(each.has_losses for each in self._streams.values()) > 1
        sensors = (
            stream.losses.judge(numbers),
            stream.gradients.judge(numbers),
            found,
            stream.divergence.judge(
                numbers,
                adversarial=adversarial,
                rate_rose_at=stream.rate_rose_at,
                spiked=self._last_rule in _SPIKES,
            ),
            stream.jitter.judge(numbers),
        )
        for each in sensors:
            told += self._tell(numbers, each, sensor=True)
        told += self._tell(numbers, stream.skips.judge(numbers))
        self._close(numbers)
        return told

    def doubts(self, loss: float) -> bool:
        """Whether a loss would be a spike in the step of any optimizer."""
        return any(stream.losses.doubts(loss) for stream in self._streams.values())

    def doubts_norm(self, numbers: StepNumbers) -> bool:
        """Whether the gradient norm of an update that begins would be a spike, and be told."""
        if self.broken_since is not None or numbers.step <= self._quiet_until:
            return False
        stream = self._streams.get(numbers.optimizer)
        return stream is not None and stream.gradients.doubts(numbers)

    def phase(self, name: str = "") -> None:
        """Begin a new phase: nothing that was usual before is a measure any more."""
        self.num_phases += 1
        self._quiet_until = -1
        self._buffers.clear()
        for stream in self._streams.values():
            stream.forget_bands()
            stream.divergence.clear()
            stream.weights.clear()
            stream.skips.clear()

    def note_damage(self, step: int) -> None:
        """Take note that another check has told of damage in this step: its traces are no news."""
        self._told_at = step
        self._quiet_until = max(self._quiet_until, step + QUIET)

    def coverage(self) -> Coverage:
        """Return what was judged, and what was folded into findings already told."""
        checked = (Checked(what="steps judged by their numbers", count=self.num_steps),)
        skipped: list[Skipped] = []
        if self.num_folded:
            why = "they follow from findings already told"
            skipped.append(
                Skipped(what=f"{self.num_folded} more signs in numbers", why=why, promised=False)
            )
        for first, last in self.broken_spans[:8]:
            what = f"numbers of steps {first} to {last}"
            why = "values were not finite: only their beginning is told"
            skipped.append(Skipped(what=what, why=why, promised=False))
        if self.broken_since is not None:
            what = f"numbers from step {self.broken_since} on"
            why = "values are not finite: only their beginning is told"
            skipped.append(Skipped(what=what, why=why, promised=False))
        return Coverage(checked=checked, skipped=tuple(skipped))

    def _stream(self, numbers: StepNumbers) -> Stream:
        return self._streams.setdefault(numbers.optimizer, Stream())

    def _watch_phase(self, numbers: StepNumbers, stream: Stream) -> None:
        """Clear the bands where a checkpoint was loaded, or a learning rate jumped."""
        if numbers.rewritten:
            for each in self._streams.values():
                each.forget_bands()
            self.num_phases += 1
        rates, stream.rates = stream.rates, numbers.rates
        factors = [
            new / old for old, new in zip(rates, numbers.rates, strict=False) if old > 0 and new > 0
        ]
        if any(factor > RATE_JUMP or factor < 1 / RATE_JUMP for factor in factors):
            stream.forget_bands()
            self.num_phases += 1
            if max(factors) > RATE_JUMP:
                stream.rate_rose_at = numbers.step

    def _tell(
        self,
        numbers: StepNumbers,
        finding: Finding | None,
        *,
        breaks: bool = False,
        sensor: bool = False,
    ) -> list[Finding]:
        """Return the finding where it is news, nothing where it follows from what was told.

        Args:
            numbers: The step.
            finding: What a judge has found.
            breaks: Values are not finite from here on.
            sensor: It stands on a threshold.
        """
        if finding is None:
            return []
        step = numbers.step
        known = self.broken_since is not None or self._told_at == step
        # That the loss never came back from a spike is news.
        worse = finding.rule == "NUM511" and self._last_rule in _SPIKES
        known |= sensor and step <= self._quiet_until and not worse
        if breaks and self.broken_since is None:
            self.broken_since = step
        self._quiet_until = max(self._quiet_until, step + QUIET)
        if known:
            self.num_folded += 1
            return []
        self._last_rule = finding.rule
        if finding.severity is Severity.ERROR:
            self._told_at = step
        where = replace(finding.where, rank=self._rank)
        return [replace(finding, where=where)]

    def _close(self, numbers: StepNumbers) -> None:
        """Look whether all values are finite again."""
        if self.broken_since is None:
            if not numbers.skipped and numbers.bad_weights:
                self.broken_since = numbers.step
            return
        clean = all(math.isfinite(loss) for loss in numbers.losses)
        clean &= numbers.skipped or not (numbers.bad_gradients or numbers.bad_weights)
        clean &= all(buffer.finite or not buffer.was_finite for buffer in numbers.buffers)
        if clean and numbers.step > self.broken_since:
            self.broken_spans.append((self.broken_since, numbers.step - 1))
            self.broken_since = None


def judge_record(steps: Iterable[StepRecord], rank: int = 0) -> Iterator[Finding]:
    """Yield the findings that the numbers on record give: losses, skips, norms, learning rates.

    Args:
        steps: Steps of one log, in order.
        rank: Rank of the log.
    """
    judge = NumericsJudge(rank)
    for record in steps:
        yield from judge.judge(numbers_of(record))
