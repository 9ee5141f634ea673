"""Where trials run: one seam, and the processes of this machine behind it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from everybit.drill.trial import Fate, Outcome, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: A trial that takes longer is ended, and told as raised.
LIMIT_S: Final = 300.0
_KILLED: Final = -int(signal.SIGKILL)


class Executor(Protocol):
    """Carries out trials."""

    def map(self, trials: Sequence[Trial]) -> Iterator[Outcome]:
        """Carry out trials; each outcome is given as soon as it is there, in any order."""
        ...


class LocalProcesses:
    """Workers on this machine: each a process that takes one trial after the other.

    A process that a fault ends (a wrong index into memory may) is told as raised, and replaced.

    Args:
        command: What a worker is: it is given trials as lines of JSON on stdin, and answers each
            with an outcome as a line of JSON on stdout.
        workers: How many at once.
        environment: Variables over those of this process.
    """

    def __init__(
        self,
        workers: int,
        *,
        command: Sequence[str] = (sys.executable, "-m", "everybit.drill.worker"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._workers = workers
        self._command = list(command)
        self._environment = worker_environment(environment)

    def map(self, trials: Sequence[Trial]) -> Iterator[Outcome]:
        """Carry out trials; each outcome is given as soon as it is there, in any order."""
        waiting: queue.SimpleQueue[Trial] = queue.SimpleQueue()
        for trial in trials:
            waiting.put(trial)
        done: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        stop = threading.Event()
        threads = [
            threading.Thread(target=self._serve, args=(waiting, done, stop), daemon=True)
            for _ in range(min(self._workers, len(trials)))
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in trials:
                outcome = done.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                yield outcome
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _serve(
        self,
        waiting: queue.SimpleQueue[Trial],
        done: queue.SimpleQueue[Outcome | BaseException],
        stop: threading.Event,
    ) -> None:
        process: _Worker | None = None
        try:
            while not stop.is_set():
                try:
                    trial = waiting.get_nowait()
                except queue.Empty:
                    break
                if process is None or not process.alive:
                    process = _Worker(self._command, self._environment)
                done.put(process.ask(trial, stop))
        except BaseException as error:
            done.put(error)
        finally:
            if process is not None:
                process.close()


def ended(trial: Trial, status: int, errors: Sequence[str]) -> Outcome:
    """Return the outcome of a trial whose process ended without an answer.

    A signal may be the fault's doing: a wrong index reads memory that is not there. Another end is
    no trial of anything.
    """
    last = next((line.strip() for line in reversed(errors) if line.strip()), "")
    why = f"its process ended with {status}"
    if status == _KILLED:
        why = f"no answer in {LIMIT_S:.0f} s"
    fate = Fate.RAISED if status < 0 else Fate.UNTRIED
    return Outcome(trial=trial, fate=fate, detail=f"{why}; {last}"[:200].rstrip("; "))


def worker_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a worker: one thread, since others work beside it."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **(more or {})}


class _Worker:
    """One process; ended where it does not answer in time."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self._errors: list[str] = []
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read_answers, daemon=True).start()
        self._error_reader = threading.Thread(target=self._read_errors, daemon=True)
        self._error_reader.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, trial: Trial, stop: threading.Event) -> Outcome:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(trial.to_json()) + "\n")
            self._process.stdin.flush()
            answer = self._wait(stop)
        except BrokenPipeError:
            answer = ""
        except queue.Empty:
            self._end()
            return ended(trial, _KILLED, self._errors)
        if answer:
            return Outcome.from_json(json.loads(answer))
        # It has closed its stdout: it is ending.
        try:
            code = self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._end()
            code = _KILLED
        # Its last words may still be on their way; what it has started may keep the pipe open.
        self._error_reader.join(1)
        return ended(trial, code, self._errors)

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._end()

    def _end(self) -> None:
        """End it, and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _wait(self, stop: threading.Event) -> str:
        waited = 0.0
        while waited < LIMIT_S and not stop.is_set():
            try:
                return self._answers.get(timeout=0.5)
            except queue.Empty:
                waited += 0.5
        raise queue.Empty

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line.strip())
        self._answers.put("")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line.rstrip())
            del self._errors[:-20]


def answer_lines(run: Callable[[Trial], Outcome]) -> None:
    """Be a worker: read trials from stdin, answer with outcomes on stdout.

    What `run` prints goes to stderr: stdout is the answers' alone.

    Args:
        run: Called with each `Trial`, returns its `Outcome`.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        outcome = run(Trial.from_json(json.loads(line)))
        answers.write(json.dumps(outcome.to_json()) + "\n")
        answers.flush()
