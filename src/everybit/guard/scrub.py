"""Scrubbing: while nothing is trained, weights are tested a part at a time, within a budget.

A serving loop that makes one token a call would take twice as long if every call tested every
weight. Since nothing writes them, what is not seen at one call is still there at a later one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from everybit.guard.question import AnyMarks

    #: Tensors that can be tested: marks, indices, doubts by index.
    Candidates = tuple[AnyMarks, list[int], dict[int, str]]

#: What looking at one tensor costs beside its bytes, in bytes.
_OVERHEAD_BYTES = 4096
#: Bytes a second before anything was measured; and on accelerators, which are not waited for.
_FIRST_SPEED = 2e9
_DEVICE_SPEED = 5e11
_SMOOTHING = 0.2


class Scrub:
    """Chooses which tensors a call tests: those not tested for longest, within the budget.

    Args:
        share: The budget, as a share of the time of a call.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._step = 0
        self._tested: dict[int, int] = {}
        self._speed = _FIRST_SPEED
        self._call_s: float | None = None
        self._began = 0.0
        self._bytes = 0
        self._on_device = False

    def begin(self, step: int) -> None:
        """Begin the test before a call."""
        self._step = step
        self._bytes = 0
        self._on_device = False
        self._began = time.perf_counter()

    def end(self) -> None:
        """End the test, and begin to time the call."""
        now = time.perf_counter()
        if self._bytes > 1 << 16 and not self._on_device:
            speed = self._bytes / max(now - self._began, 1e-9)
            self._speed += _SMOOTHING * (speed - self._speed)
        self._began = now

    def called(self) -> None:
        """Note that the call has ended."""
        seconds = time.perf_counter() - self._began
        if self._call_s is None:
            self._call_s = seconds
        else:
            self._call_s += _SMOOTHING * (seconds - self._call_s)

    def last(self, tensor: torch.Tensor) -> int | None:
        """Return the step at which a tensor was last found right, None where it never was."""
        return self._tested.get(id(tensor))

    def is_late(self, marks: AnyMarks, index: int) -> bool:
        """Whether calls have used the tensor since it was last tested."""
        return self._tested.get(id(marks.tracked[index].tensor), self._step) < self._step - 1

    def passed(self, tensor: torch.Tensor) -> None:
        """Note that a tensor is right now."""
        self._tested[id(tensor)] = self._step

    def pick(self, candidates: Sequence[Candidates]) -> list[Candidates]:
        """Return those to test before this call."""
        places = [
            (self._tested.get(id(marks.tracked[index].tensor), -1), number, index)
            for number, (marks, indices, _) in enumerate(candidates)
            for index in indices
        ]
        left = self._budget(candidates)
        chosen: list[list[int]] = [[] for _ in candidates]
        for _, number, index in sorted(places):
            size = candidates[number][0].size_of(index)
            if left <= 0:
                break
            left -= size + _OVERHEAD_BYTES
            self._bytes += size
            chosen[number].append(index)
        return [
            (marks, sorted(indices), doubts)
            for (marks, _, doubts), indices in zip(candidates, chosen, strict=True)
            if indices
        ]

    def _budget(self, candidates: Sequence[Candidates]) -> float:
        if self._call_s is None or self._share >= 1:
            return float("inf")
        self._on_device = any(
            marks.tracked[0].tensor.device.type != "cpu"
            for marks, indices, _ in candidates
            if indices
        )
        speed = _DEVICE_SPEED if self._on_device else self._speed
        return max(self._share * self._call_s * speed, 1.0)
