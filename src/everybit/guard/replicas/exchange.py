"""All ranks show each other a row of integers, round after round, and nobody is made to hang."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.guard.meeting import Meeting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Row = NDArray[np.int64]

#: Rounds that may be under way while a rank is late; with more it is given up.
MAX_PENDING: Final = 10_000
_SLEEP_S: Final = 2e-3
_LEAST_WAIT_S: Final = 2e-3
_LEAST_PATIENCE_S: Final = 0.02


class Exchange:
    """Rounds of one all-gather each, over a group of the Guard's own, in the same order everywhere.

    A round is begun and not waited for; what came of it is taken later, in order. So a rank that is
    late, dead or not watched holds nobody up: its rounds just do not come out.

    Args:
        settings: What has to be the same on all ranks, as text.
        patience_s: How long to wait for a rank that may not be watched.

    Attributes:
        ended: Why no more rounds come out, else "".
        num_begun: Rounds begun.
    """

    def __init__(self, settings: str, patience_s: float) -> None:
        self.ended = ""
        self.num_begun = 0
        self._meeting = Meeting(settings, 0.9 * patience_s, "replicas")
        self._pending: list[_Round | _Addition] = []
        self._num_missed = 0

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._meeting.rank

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return self._meeting.world_size

    @property
    def store(self) -> Any:
        """The ranks' store, once they have met."""
        return self._meeting.store if self._meeting.group is not None else None

    @property
    def num_pending(self) -> int:
        """Rounds begun and not taken."""
        return len(self._pending)

    def begin(self, row: Row) -> int:
        """Show a row to all ranks; call it in the same order, and as long, on all of them.

        Args:
            row: int64, shape `(lanes,)`.

        Returns:
            The number of the round, from 1.
        """
        self.num_begun += 1
        if not self.ended:
            self._pending.append(_Round(row, self.world_size))
            self._launch()
            if len(self._pending) > MAX_PENDING:
                self._end(f"a rank was late for more than {MAX_PENDING} rounds")
        return self.num_begun

    def add(self, lane: int, vector: Row) -> int:
        """Add a vector up over all ranks, where all have shown one and the same word for it.

        Args:
            lane: Where the row that was begun last holds that word, which is not 0.
            vector: int64, shape `(lanes,)`; added modulo 2^64.

        Returns:
            The number of the round. What comes out has one row, or none where words differ.
        """
        shown = next((r for r in reversed(self._pending) if isinstance(r, _Round)), None)
        self.num_begun += 1
        if shown is not None:
            self._pending.append(_Addition(shown, lane, vector))
        return self.num_begun

    def take(self, at_most_s: float = 0.0) -> list[Row]:
        """Return what came out since, one `(ranks, lanes)` int64 matrix a round, in order.

        Args:
            at_most_s: Wait so long for the rounds begun; while a rank stays late, each wait is half
                the last.
        """
        rows: list[Row] = []
        deadline = time.monotonic()
        if at_most_s:
            deadline += max(at_most_s * 0.5**self._num_missed, _LEAST_PATIENCE_S)
        self._launch()
        while self._pending:
            first = self._pending[0]
            left_s = deadline - time.monotonic()
            if left_s > 0:
                first.wait(min(left_s, 0.1))
            if not first.is_completed:
                if left_s > 0:
                    self._launch()
                    if not first.is_launched:
                        time.sleep(_SLEEP_S)
                    continue
                break
            self._pending.pop(0)
            try:
                rows.append(first.rows())
            except RuntimeError as error:
                self.fail(error)
            self._launch()
        if at_most_s:
            self._num_missed = self._num_missed + 1 if self._pending else 0
        return rows

    def fail(self, error: RuntimeError) -> None:
        """End it: the ranks' store cannot be reached."""
        self._end(f"a rank is gone, or cannot be reached ({_reason(error)})")

    def part(self) -> None:
        """Let go of the group."""
        self._meeting.part(pending=bool(self._pending))
        self._pending.clear()

    def _launch(self) -> None:
        if self._meeting.failure:
            self._end(self._meeting.failure)
        if self._meeting.group is not None:
            for each in self._pending:
                try:
                    each.launch(self._meeting.group)
                except RuntimeError as error:
                    self.fail(error)
                    break
                if not each.is_launched:
                    break  # Rounds are launched in the same order on all ranks.

    def _end(self, why: str) -> None:
        self.ended = self.ended or why
        pending = [each for each in self._pending if each.is_launched]
        self._meeting.part(pending=bool(pending))
        self._pending.clear()


class _Round:
    def __init__(self, row: Row, world_size: int) -> None:
        self._mine = torch.from_numpy(row.copy())
        self._all = torch.empty((world_size, len(row)), dtype=torch.int64)
        self._work: Any = None

    @property
    def is_launched(self) -> bool:
        return self._work is not None

    @property
    def is_completed(self) -> bool:
        return self._work is not None and bool(self._work.is_completed())

    def launch(self, group: Any) -> None:
        if self._work is None:
            self._work = group._allgather_base(self._all.view(-1), self._mine)

    def wait(self, timeout_s: float) -> None:
        if self._work is not None:
            with contextlib.suppress(RuntimeError):  # Not in time, or failed: `rows` tells.
                # Less than a millisecond is none to gloo, and none is for ever.
                self._work.wait(timedelta(seconds=max(timeout_s, _LEAST_WAIT_S)))

    def rows(self) -> Row:
        self._work.wait()
        rows: Row = self._all.numpy()
        return rows


class _Addition:
    """A round that is held only where all ranks have announced it in the row before."""

    def __init__(self, shown: _Round, lane: int, vector: Row) -> None:
        self._shown = shown
        self._lane = lane
        self._vector = torch.from_numpy(vector.copy())
        self._work: Any = None
        self._is_off = False

    @property
    def is_launched(self) -> bool:
        return self._is_off or self._work is not None

    @property
    def is_completed(self) -> bool:
        return self._is_off or (self._work is not None and bool(self._work.is_completed()))

    def launch(self, group: Any) -> None:
        if self.is_launched or not self._shown.is_completed:
            return
        words = self._shown.rows()[:, self._lane]
        self._is_off = bool((words != words[0]).any()) or not words[0]
        if not self._is_off:
            self._work = group.allreduce([self._vector])

    def wait(self, timeout_s: float) -> None:
        if self._work is not None:
            with contextlib.suppress(RuntimeError):
                self._work.wait(timedelta(seconds=max(timeout_s, _LEAST_WAIT_S)))

    def rows(self) -> Row:
        if self._is_off:
            return self._vector.numpy().reshape(1, -1)[:0]
        self._work.wait()
        added: Row = self._vector.numpy().reshape(1, -1)
        return added


def _reason(error: RuntimeError) -> str:
    """Return what gloo says, without the places in its source and its advice."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rpartition(".cc:")[2].partition("] ")[2].partition(". ")[0] or lines[0][:200]
