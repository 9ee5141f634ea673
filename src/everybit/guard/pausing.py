"""Waiting to be released: what the policy `pause` does."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.ledger import Answer, Pause
from everybit.ledger.pause import begin_pause, end_pause, read_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from everybit.core.finding import Finding

#: Between two looks at the run folder.
POLL_S: Final = 0.25


class Ending(IntEnum):
    """How a wait ends; of several ranks' the highest counts for all."""

    WAITING = 0
    TIMEOUT = 1
    RELEASED = 2
    STOPPED = 3


_ENDINGS: Final = {None: Ending.WAITING, Answer.GO: Ending.RELEASED, Answer.STOP: Ending.STOPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """A pause that is over.

    Attributes:
        ending: How it ended; `WAITING` where it could not begin.
        seconds: How long it took.
    """

    ending: Ending
    seconds: float


class Pauser:
    """Holds the calling thread until the run is released.

    Args:
        run: The run folder.
        rank: Rank of this process.
        attempt: Attempt of the rank.
        timeout_s: The job goes on after so many seconds.
        tell: Says a line to people.
        highest: Tells the other ranks a whole number and returns the highest of all. Every rank
            calls it as often as the others do, so all are held and released together. None where
            this process is alone.
        clock: Wall clock, seconds since the epoch.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        run: Path,
        *,
        rank: int,
        attempt: int,
        timeout_s: float,
        tell: Callable[[str], None],
        highest: Callable[[int], int] | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run = run.absolute()
        self._rank = rank
        self._attempt = attempt
        self._timeout_s = timeout_s
        self._tell = tell
        self._highest = highest or int
        self._clock = clock
        self._sleep = sleep

    def __call__(self, findings: Sequence[Finding], *, step: int, incident: str = "") -> Waited:
        """Wait. Signals do to the job what they always do.

        Args:
            findings: What was found; none where another rank found something.
            step: Updates finished or skipped so far.
            incident: Folder of the scene, relative to the run folder.
        """
        began = time.monotonic()
        now = self._clock()
        pause = Pause(
            rank=self._rank,
            step=step,
            rule=findings[0].rule if findings else "",
            message=findings[0].message if findings else "another rank has a finding",
            incident=incident,
            since_s=now,
            until_s=now + self._timeout_s,
            attempt=self._attempt,
        )
        try:
            written = self._begin(pause)
            # Where no rank could write its state, nobody could ever release the job.
            if not max(written, self._highest(int(written))):
                self._tell(f"not paused at step {step}: its state cannot be written")
                return Waited(ending=Ending.WAITING, seconds=0.0)
            ending = self._wait(pause, began + self._timeout_s)
        finally:
            end_pause(self._run, pause)
        waited = Waited(ending=ending, seconds=time.monotonic() - began)
        if ending is not Ending.STOPPED:
            by = "released" if ending is Ending.RELEASED else "nobody released it"
            self._tell(f"{by}: the job goes on, after {tell_seconds(waited.seconds)}")
        return waited

    def _begin(self, pause: Pause) -> bool:
        try:
            begin_pause(self._run, pause)
        except PathError as error:
            self._tell(f"the pause cannot be shown: {error.line()}")
            return False
        run = shlex.quote(str(self._run))
        self._tell(
            f"paused at step {pause.step}; `everybit release {run}` lets the job go on, --stop ends"
            f" it; by itself it goes on in {tell_seconds(self._timeout_s)}"
        )
        return True

    def _wait(self, pause: Pause, deadline: float) -> Ending:
        while True:
            mine = _ENDINGS[read_answer(self._run, pause)]
            if mine is Ending.WAITING and time.monotonic() >= deadline:
                mine = Ending.TIMEOUT
            ending = max(mine, Ending(self._highest(mine)))
            if ending is not Ending.WAITING:
                return ending
            self._sleep(min(POLL_S, max(deadline - time.monotonic(), 0.0)))


def tell_seconds(seconds: float) -> str:
    """Return a length of time as people say it.

    >>> tell_seconds(0.26), tell_seconds(90), tell_seconds(5400), tell_seconds(86400)
    ('0.3 s', '90 s', '1.5 h', '24 h')
    """
    for size, unit, least in ((86_400, "days", 3.0), (3_600, "h", 1.5), (60, "min", 2.0)):
        if seconds >= least * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
