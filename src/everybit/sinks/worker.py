"""The process of a tracker: reads what the job tells it and hands it to the tracker's library."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: A tracker is asked to write out what it holds at least so often.
TICK_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a tracker is told at its start.

    Attributes:
        tracker: Its name.
        place: Where it writes to; "" for its default.
        run: The run folder.
        rank: Rank of the process that is watched.
    """

    tracker: str
    place: str
    run: str
    rank: int

    @property
    def name(self) -> str:
        """What to call the run."""
        name = Path(self.run).name or "run"
        return f"{name}-r{self.rank}" if self.rank else name


class Recorder(Protocol):
    """A tracker's library, as this process uses it."""

    def scalars(self, step: int, time_s: float, values: dict[str, float]) -> None:
        """Take numbers of a step."""

    def finding(self, step: int, rule: str, severity: str, message: str) -> None:
        """Take a finding that is told beside the numbers."""

    def tick(self) -> None:
        """Write out what is held; called every few seconds."""

    def close(self, status: str) -> None:
        """Write out everything; `status` is the verdict's, or `killed`."""


def main(arguments: Sequence[str]) -> None:
    """Serve one tracker until the job ends or says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    job = Job(**json.loads(arguments[0]))
    serve(sys.stdin.fileno(), open_recorder(job))


def open_recorder(job: Job) -> Recorder:
    """Import a tracker's module and open it; raises whatever the library raises."""
    module: Any = importlib.import_module(f"everybit.sinks.to_{job.tracker}")
    recorder: Recorder = module.open_recorder(job)
    return recorder


def serve(fd: int, recorder: Recorder) -> None:
    """Hand every line of `fd` to the recorder, its end too."""
    counts: dict[str, int] = {}
    status = "killed"
    for told in _lines(fd, recorder):
        if told["kind"] == "step":
            recorder.scalars(told["step"], told["time_s"], told["scalars"])
        elif told["kind"] == "finding":
            rule = told["rule"]
            counts[rule] = counts.get(rule, 0) + 1
            step = told["step"] or 0
            name = f"everybit/findings/{rule}"
            recorder.finding(step, rule, told["severity"], told["message"])
            recorder.scalars(step, time.time(), {name: float(counts[rule])})
        else:
            status = told["status"]
            break
    recorder.close(status)


def _told(line: bytes) -> dict[str, Any]:
    """Return what a line says; nothing of one that a signal's handler broke into."""
    with contextlib.suppress(ValueError):
        told = json.loads(line)
        if isinstance(told, dict) and "kind" in told:
            return told
    return {}


def _lines(fd: int, recorder: Recorder) -> Iterator[dict[str, Any]]:
    held = b""
    next_tick = time.monotonic() + TICK_S
    while True:
        ready, _, _ = select.select([fd], [], [], max(next_tick - time.monotonic(), 0.0))
        if ready:
            data = os.read(fd, 1 << 16)
            if not data:
                return
            *whole, held = (held + data).split(b"\n")
            yield from filter(None, map(_told, whole))
        if time.monotonic() >= next_tick:
            recorder.tick()
            next_tick = time.monotonic() + TICK_S
