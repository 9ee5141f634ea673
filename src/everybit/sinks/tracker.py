"""A tracker, in a process of its own: its library cannot slow the job or draw its random numbers.

The job writes lines of JSON into a pipe and never waits for room in it. Where the job is killed,
the pipe ends, and the tracker finishes by itself what it was told until then.
"""

from __future__ import annotations

import json
import logging
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from everybit.sinks.scalars import scalars_of

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.observation import StepRecord
    from everybit.core.verdict import Verdict

LOGGER = logging.getLogger("everybit")

#: What waits for room in the pipe; steps beyond it are dropped.
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
#: How long the end of a run waits for a tracker to finish; it goes on without us after that.
CLOSE_S: Final = 5.0
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from everybit.sinks.worker import main; main(sys.argv[2:])"
)
_LOG_NAME: Final = "{tracker}-r{rank}.txt"


class Tracker:
    """A sink that hands scalars and findings to a tracker's process.

    Args:
        tracker: Its name.
        place: Where it writes to; "" for its default.
        folder: The run folder.
        rank: Rank of this process.
    """

    def __init__(self, tracker: str, place: str, *, folder: Path, rank: int) -> None:
        self.dropped = 0
        self._name = tracker
        self._waiting = bytearray()
        self._log = folder.absolute() / "trackers" / _LOG_NAME.format(tracker=tracker, rank=rank)
        self._log.parent.mkdir(mode=0o700, exist_ok=True)
        home = str(Path(__file__).parents[2])
        options = {"tracker": tracker, "place": place, "run": str(folder.absolute()), "rank": rank}
        with self._log.open("ab") as log:
            self._log.chmod(0o600)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, home, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                bufsize=0,
                # Ctrl-C is for the job: the tracker ends when the job has.
                start_new_session=True,
            )
        os.set_blocking(self._pipe.fileno(), False)

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def step(self, record: StepRecord) -> None:
        """Hand on the numbers of a step."""
        if len(self._waiting) > MAX_WAITING_BYTES:
            self.dropped += 1
            self._write()
            return
        told = {"step": record.step, "time_s": record.time_s, "scalars": scalars_of(record)}
        self._send("step", told)

    def finding(self, finding: Finding) -> None:
        """Hand on a finding."""
        if len(self._waiting) > 2 * MAX_WAITING_BYTES:
            self.dropped += 1
            return
        told = {
            "step": finding.where.step,
            "rule": finding.rule,
            "severity": str(finding.severity),
            "message": finding.message[:1000],
        }
        self._send("finding", told)

    def close(self, verdict: Verdict) -> None:
        """Hand on how the run ended, and wait a few seconds for the tracker to finish."""
        deadline = time.monotonic() + CLOSE_S
        # Forked workers of the job may hold the pipe open for longer: the end is said.
        self._send("close", {"status": str(verdict.status), "dropped": self.dropped})
        while self._waiting and time.monotonic() < deadline:
            select.select([], [self._pipe], [], max(deadline - time.monotonic(), 0.0))
            self._write()
        self._pipe.close()
        try:
            code = self._process.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            LOGGER.warning(
                "everybit: %s is still at work after %g s and goes on by itself; what it says is"
                " in %s",
                self._name,
                CLOSE_S,
                self._log,
            )
            return
        if code:
            raise RuntimeError(self._last_words())

    def _send(self, kind: str, told: dict[str, Any]) -> None:
        self._waiting += json.dumps({"kind": kind, **told}).encode() + b"\n"
        self._write()

    def _write(self) -> None:
        try:
            while self._waiting:
                written = os.write(self._pipe.fileno(), memoryview(self._waiting)[: 1 << 16])
                del self._waiting[:written]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._pipe.close()
            self._process.wait(1.0)
            raise RuntimeError(self._last_words()) from None

    def _last_words(self) -> str:
        """Return the last line that the tracker's process left."""
        try:
            lines = self._log.read_bytes()[-4096:].decode(errors="replace").split("\n")
        except OSError:
            lines = []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it ended")
        return f"{last} ({self._log})"
