"""Loops that fetch ahead: the step at which a batch was used, from that at which it was delivered.

Accelerate and what is built on it ask for the next batch before they give the one before to the
loop. So the first step of a pass has a batch more on record than it used, and each batch after that
is on record a batch too early. It shows where a pass begins: more batches are delivered than losses
were made, and as many as losses at the next step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from everybit.core.samples import SampleRecord


def as_used(
    records: Iterable[SampleRecord], num_losses: Callable[[int], int]
) -> Iterator[SampleRecord]:
    """Yield records of batches with the step that used each; validation batches as they are.

    Args:
        records: Delivered batches of one rank, in order; `step` is the next update.
        num_losses: Returns how many losses a step made; 0 where that is not on record.
    """
    stream = _Stream(num_losses)
    for record in records:
        if record.step < 0:
            yield record
        else:
            yield from stream.take(record)
    yield from stream.end()


class _Stream:
    def __init__(self, num_losses: Callable[[int], int]) -> None:
        self._num_losses = num_losses
        self._passes: dict[str, _Pass] = {}
        self._open: list[_Pass] = []
        self._held: list[tuple[_Pass, SampleRecord]] = []

    def take(self, record: SampleRecord) -> Iterator[SampleRecord]:
        """Take the next batch; yield those whose step is known by it."""
        current = self._passes.get(record.loader)
        if current is None or current.epoch != record.epoch:
            if current is not None:
                current.ended = record.step
            current = self._passes[record.loader] = _Pass(record.epoch, record.step)
            self._open.append(current)
        current.count(record.step)
        self._held.append((current, record))
        # The first two steps of a pass tell; what comes in between from others waits with it.
        if all(each.is_known(record.step) for each, _ in self._held):
            yield from self._release()

    def end(self) -> Iterator[SampleRecord]:
        """Yield what is left."""
        yield from self._release()
        for each in self._open:
            yield from each.rest()

    def _release(self) -> Iterator[SampleRecord]:
        held, self._held = self._held, []
        for current, record in held:
            current.decide(self._num_losses)
            for each in self._open:
                yield from each.rest(before=record.step)
            yield from current.deliver(record)
        self._open = [each for each in self._open if each.waiting or each.ended is None]


@dataclass(slots=True, eq=False)
class _Pass:
    epoch: int
    first: int
    counts: dict[int, int] = field(default_factory=dict)
    ahead: int | None = None
    pace: int = 0
    ended: int | None = None
    waiting: deque[SampleRecord] = field(default_factory=deque)
    latest: tuple[int, int] = (-1, 0)

    def count(self, step: int) -> None:
        if self.ahead is None and step <= self.first + 1:
            self.counts[step] = self.counts.get(step, 0) + 1

    def is_known(self, step: int) -> bool:
        return self.ahead is not None or self.ended is not None or step > self.first + 1

    def decide(self, num_losses: Callable[[int], int]) -> None:
        """Find how many batches the loop is ahead."""
        if self.ahead is not None:
            return
        self.ahead = 0
        begun, following = (self.counts.get(self.first + n, 0) for n in (0, 1))
        if not 0 < following < begun:
            return
        pace = num_losses(self.first)
        if 0 < pace < begun and following <= num_losses(self.first + 1):
            self.ahead, self.pace = begun - pace, pace

    def deliver(self, record: SampleRecord) -> Iterator[SampleRecord]:
        step, number = self.latest
        self.latest = (record.step, number + 1 if step == record.step else 1)
        self.waiting.append(record)
        if len(self.waiting) > (self.ahead or 0):
            yield replace(self.waiting.popleft(), step=record.step)

    def rest(self, before: int | None = None) -> Iterator[SampleRecord]:
        """Yield the last batches of a pass: used at its pace, with nothing fetched any more.

        Args:
            before: Only where that was before this step.
        """
        while self.waiting:
            step, number = self.latest
            if number >= self.pace:
                step, number = step + 1, 0
            if self.ended is not None and step >= self.ended:
                self.waiting.clear()  # The loop left the pass, and never used them.
                return
            if before is not None and step >= before:
                return
            self.latest = (step, number + 1)
            yield replace(self.waiting.popleft(), step=step)
