"""Steps that nobody planned to repeat: recorded quickly, in case that a sensor doubts them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch

#: Share of a step that a quick record of its calls may take; where it takes more, none is made.
MAX_SHARE: Final = 0.002
#: Steps after which what costs too much is tried again.
RETRY: Final = 512
_WEIGHT: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class Sensors:
    """What sensors say of the step that is going on, as far as it is known on the host.

    Attributes:
        doubts: Whether a loss, for which a backward pass begins, is out of its band.
        doubts_gradients: Whether the gradients of the update that begins are.
        words: The fingerprint of each gradient as it was marked, by its parameter's id.
        parameters: Those of an optimizer, with their names.
    """

    doubts: Callable[[torch.Tensor], bool]
    doubts_gradients: Callable[[], bool]
    words: Callable[[], dict[int, int]]
    parameters: Callable[[torch.optim.Optimizer], Iterable[tuple[str, torch.Tensor]]]


class Affordable:
    """Whether quick records cost little beside the steps of this loop."""

    def __init__(self) -> None:
        self._spent_s = 0.0
        self._began = 0.0
        self._share = 0.0
        self._num_measured = 0
        self._rests = 0

    @property
    def now(self) -> bool:
        """Whether the next step may be recorded."""
        return self._rests == 0

    def spend(self, seconds: float) -> None:
        """Add what a record of this step has taken."""
        self._spent_s += seconds

    def end_step(self) -> None:
        """Take a step's time, and decide about those that follow."""
        now, began = time.perf_counter(), self._began
        self._began = now
        spent, self._spent_s = self._spent_s, 0.0
        if self._rests:
            self._rests -= 1
            return
        if not began or not spent:
            return
        # The first ones load code and fill caches.
        self._num_measured += 1
        share = spent / max(now - began, 1e-9)
        if self._num_measured > 2:
            first = self._num_measured == 3
            self._share = share if first else self._share + _WEIGHT * (share - self._share)
        if self._share > MAX_SHARE and self._num_measured > 4:
            self._rests, self._num_measured = RETRY, 0
