"""The check on what activation checkpointing computes twice anyway."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.boundary import Boundary
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.recompute import MIN_EXACT, Recompute, judge_recompute
from everybit.guard.check import Check
from everybit.guard.recompute.frames import Frames, Recomputed
from everybit.guard.replay.values import differ, on_host
from everybit.guard.root_call import repeating

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment

    Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    """A mismatch of a function that has not repeated often enough to say what it means."""

    step: int
    found: Recomputed
    differing: tuple[int, ...]


class RecomputeCheck(Check):
    """Compare the first and the second computation of checkpointed functions (CMP702).

    Args:
        rank: Rank of this process.
        every: On every so-manyeth checked step; 0 for never.
        name_of: Tells a module's name, "" where it has none.
    """

    def __init__(self, *, rank: int, every: int, name_of: Callable[[torch.nn.Module], str]) -> None:
        self._rank = rank
        self._every = every
        self._name_of = name_of
        self._frames = Frames(self._wants, self._take, self._fail)
        self._lock = threading.Lock()
        self._wanted = False
        self._installed = False
        self._step = 0
        self._num_steps = 0
        self._taken: list[Recomputed] = []
        self._exact: Counter[Key] = Counter()
        self._inexact: Counter[Key] = Counter()
        self._doubts: dict[Key, _Doubt] = {}
        self._num_compared = 0
        self._fault = ""

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Return what was computed differently, once the backward pass has ended."""
        if boundary is Boundary.FORWARD_START and self._every:
            if not self._installed:
                self._frames.install()
                self._installed = True
            self._step = moment.step
            self._wanted = not self._fault and self._num_steps % self._every == 0
        elif boundary is Boundary.BACKWARD_END:
            return self._judge(moment.step)
        elif boundary is Boundary.STEP_END:
            self._num_steps += 1
            self._wanted = False
        return ()

    def coverage(self) -> Coverage:
        """Return how many tensors were compared, and what could not be judged."""
        checked = Checked(what="activations computed twice", count=self._num_compared)
        skipped = [
            Skipped(
                what=f"recomputation of {doubt.found.function} at step {doubt.step}",
                why="it differed, and it has not repeated often enough since to say why",
                promised=False,
            )
            for doubt in self._doubts.values()
        ]
        if self._fault:
            skipped.append(Skipped(what="activations computed twice", why=self._fault))
        if not self._num_compared:
            return Coverage(skipped=tuple(skipped))
        return Coverage(checked=(checked,), skipped=tuple(skipped))

    def close(self) -> None:
        """Leave checkpointing as it was."""
        self._wanted = False
        self._frames.remove()

    def _wants(self) -> bool:
        return self._wanted and not repeating(anywhere=True)

    def _take(self, found: Recomputed) -> None:
        with self._lock:
            self._taken.append(found)

    def _fail(self, error: Exception) -> None:
        self._fault = f"{type(error).__name__}: {error}"
        self._wanted = False

    def _judge(self, step: int) -> list[Finding]:
        with self._lock:
            taken, self._taken = self._taken, []
        findings: list[Finding] = []
        for found in taken:
            self._num_compared += len(found.first)
            words = on_host([*found.first, *found.second])
            half = len(found.first)
            differing = tuple(i for i in range(half) if differ(words[i], words[half + i]))
            findings += self._weigh(found, differing, step)
        return findings

    def _weigh(self, found: Recomputed, differing: tuple[int, ...], step: int) -> list[Finding]:
        key = found.key
        if not differing:
            self._exact[key] += bool(found.first)
            doubt = self._doubts.get(key)
            if doubt is None or self._exact[key] < MIN_EXACT:
                return []
            del self._doubts[key]
            return [self._told(doubt.found, doubt.differing, doubt.step)]
        self._inexact[key] += 1
        if self._exact[key] >= MIN_EXACT or self._inexact[key] > 1:
            self._doubts.pop(key, None)
            return [self._told(found, differing, step)] if self._is_news(key) else []
        self._doubts[key] = _Doubt(step=step, found=found, differing=differing)
        return []

    def _is_news(self, key: Key) -> bool:
        """Whether a function that never repeats was told of once already."""
        return self._exact[key] >= MIN_EXACT or self._inexact[key] == 2

    def _told(self, found: Recomputed, differing: tuple[int, ...], step: int) -> Finding:
        owner = None if found.owner is None else found.owner()
        return judge_recompute(
            Recompute(
                step=step,
                rank=self._rank,
                module="" if owner is None else self._name_of(owner),
                function=found.function,
                tensors=tuple(
                    f"{found.shapes[i]} (position {found.positions[i]})" for i in differing
                ),
                num_compared=len(found.first),
                num_exact=self._exact[found.key],
                num_inexact=self._inexact[found.key],
            )
        )
