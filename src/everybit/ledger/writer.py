"""The run's recorder: one log a rank and attempt, one frame a step, never a fault of the job."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from everybit._version import __version__
from everybit.core.errors import PathError
from everybit.ledger.append import LogFile
from everybit.ledger.end import End, EndReason
from everybit.ledger.folder import create_or_join, list_logs, log_name
from everybit.ledger.frame import FORMAT, Kind
from everybit.ledger.names import NameTable
from everybit.ledger.payload import encode_json
from everybit.ledger.process import ProcessIdentity
from everybit.ledger.samples import encode_samples
from everybit.ledger.step import encode_step, encode_tables
from everybit.ledger.tail import describe_earlier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.core.observation import Observation, StepRecord, TensorTable
    from everybit.core.samples import SampleRecord
    from everybit.core.verdict import Coverage

#: Lists of names are written twice, and all again after so many bytes, at first and at most: damage
#: then never takes the meaning of the whole log with it.
_FIRST_REPEAT_BYTES: Final = 64 * 1024
_LAST_REPEAT_BYTES: Final = 4 * 1024 * 1024
_REPEAT_SHARE: Final = 16


class RecordingStopped(UserWarning):
    """The run can no longer be recorded; the job goes on."""


class RunWriter:
    """The writing end of a run folder, for one rank and attempt.

    Made by `RunWriter.open`. No method raises over the disk: at the first write that fails,
    `failed` is set, one `RecordingStopped` warning is given, and every later call does nothing. In
    a forked child (a DataLoader worker) every call does nothing. Calls may come from any thread,
    and from signal handlers; only `step` and `tables` do nothing in a handler that interrupts a
    call of its own thread.

    Attributes:
        path: The run folder.
        rank: Rank of this process.
        attempt: Number of this attempt of the rank, from 0.
        failed: The error that stopped the recording.
    """

    def __init__(self, path: Path, *, rank: int, attempt: int, log: LogFile) -> None:
        self.path = path
        self.rank = rank
        self.attempt = attempt
        self.failed: OSError | None = None
        self._log = log
        self._names = NameTable(self._define)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._owner = 0
        self._ended = False
        self._closed = False
        self._waiting: list[tuple[Kind, bytes, int]] = []
        self._repeat_every = _FIRST_REPEAT_BYTES
        self._repeat_at = log.size + _FIRST_REPEAT_BYTES
        self._copied_ids = 0

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        rank: int = 0,
        world_size: int = 1,
        command: Sequence[str] = (),
        environment: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Create or join a run folder and begin the next attempt of `rank`.

        Args:
            folder: The run folder; made with mode 0700 where it is missing.
            rank: Rank of this process.
            world_size: Number of ranks.
            command: What runs, as in `sys.argv`.
            environment: As `everybit.host` captures it, JSON-ready.
            config: The settings in force, JSON-ready.
            clock: Wall clock, seconds since the epoch.

        Raises:
            PathError: The place cannot be written, or holds a damaged `run.json`.
            UsageError: A later everybit wrote the folder.
        """
        path = Path(folder)
        try:
            run = create_or_join(path, world_size=world_size, command=command, clock=clock)
            attempts = list_logs(path).get(rank, [])
            while True:
                attempt = attempts[-1] + 1 if attempts else 0
                log_id = int.from_bytes(os.urandom(8), "little")
                header: dict[str, Any] = {
                    "format": FORMAT,
                    "everybit": __version__,
                    "rank": rank,
                    "attempt": attempt,
                    "world_size": world_size,
                    "time_s": clock(),
                    **ProcessIdentity.current().to_json(),
                    "command": list(command),
                    "config": config or {},
                    "environment": environment or {},
                    "previous": describe_earlier(path / log_name(rank, attempts[-1])).to_json()
                    if attempts
                    else None,
                }
                try:
                    log = LogFile.create(
                        path / log_name(rank, attempt),
                        *encode_json(header),
                        log_id=log_id,
                        run=run.digest or b"",
                    )
                except FileExistsError:  # another process of this rank was faster
                    attempts = [*attempts, attempt]
                    continue
                return cls(path, rank=rank, attempt=attempt, log=log)
        except OSError as error:
            raise PathError.from_os_error(
                error, error.filename or path, todo="choose a folder that can be written with --run"
            ) from error

    @property
    def log_name(self) -> str:
        """File name of the log."""
        return log_name(self.rank, self.attempt)

    def tables(self, step: int, tables: Sequence[TensorTable]) -> None:
        """Record digests taken outside a step: `init` at the start, `load` after a load.

        Args:
            step: Updates finished or skipped so far.
            tables: The digests.
        """
        if self._active() and not self._nested():
            with self._lock:
                self._owner = threading.get_ident()
                ids = [self._names.id_of(table) for table in tables]
                self._append(Kind.TABLES, encode_tables(step, tables, ids))
                self._copy_names()

    def step(self, record: StepRecord) -> None:
        """Record one finished or skipped update: one frame, one `write(2)`."""
        if self._active() and not self._nested():
            with self._lock:
                self._owner = threading.get_ident()
                ids = [self._names.id_of(table) for table in record.tables]
                ids += [self._names.id_of(table) for table in record.sums]
                self._append(Kind.STEP, encode_step(record, ids))
                if self._names.next_id > self._copied_ids or self._log.size >= self._repeat_at:
                    self._copy_names()

    def samples(self, record: SampleRecord) -> None:
        """Record one delivered batch: one frame, one `write(2)`."""
        if self._active() and not self._nested():
            payload = encode_samples(record)
            with self._lock:
                self._owner = threading.get_ident()
                self._append(Kind.SAMPLES, payload)

    def finding(self, finding: Finding) -> None:
        """Record a finding."""
        self._append_json(Kind.FINDING, finding.to_json())

    def observe(self, observation: Observation) -> None:
        """Record an observation."""
        data = dict(observation.data)
        self._append_json(
            Kind.OBSERVATION, {"kind": observation.kind, "step": observation.step, "data": data}
        )

    def coverage(self, coverage: Coverage, stats: Mapping[str, Any] | None = None) -> None:
        """Record what was checked, what was not, and what it cost; the last such record counts."""
        self._append_json(
            Kind.COVERAGE, {"coverage": coverage.to_json(), "stats": dict(stats or {})}
        )

    def end(self, reason: EndReason, code: int = 0, detail: str = "") -> None:
        """Record how the run ended, wait for the disk, and record nothing more.

        Args:
            reason: Why it ends.
            code: Exit code, or the number of the signal.
            detail: Type and message of the exception, or the name of the signal.
        """
        if not self._active():
            return
        payload = encode_json(End(reason=reason, code=code, detail=detail).to_json())
        if self._nested():
            self._finish(payload)
            self._log.divert()
            return
        with self._lock:
            self._owner = threading.get_ident()
            if self._active():
                self._copy_names(everything=True)
            if self._active():
                self._finish(payload)

    def close(self) -> None:
        """Close the log. Without `end` before, it reads as a run that was killed."""
        if self._closed or os.getpid() != self._pid:
            return
        if self._nested():  # the frame under way still needs the file
            self._closed = True
            return
        with self._lock:
            self._closed = True
            if self.failed is None and not self._ended:
                try:
                    self._log.settle()
                    self._append_waiting()
                    self._log.sync()
                except OSError as error:
                    self._stop(error)
            with contextlib.suppress(OSError):
                self._log.close()

    def _active(self) -> bool:
        return (
            self.failed is None
            and not self._ended
            and not self._closed
            and os.getpid() == self._pid
        )

    def _nested(self) -> bool:
        """Whether this is a signal handler that runs inside a call of this very thread."""
        return self._owner == threading.get_ident() and self._lock.locked()

    def _append_json(self, kind: Kind, data: Mapping[str, Any]) -> None:
        if not self._active():
            return
        payload, flags = encode_json(data)
        if self._nested():
            self._waiting.append((kind, payload, flags))
            return
        with self._lock:
            self._owner = threading.get_ident()
            self._append(kind, payload, flags)

    def _define(self, names: Mapping[str, Any]) -> None:
        self._append(Kind.NAMES, *encode_json(names))

    def _append(self, kind: Kind, payload: bytes, flags: int = 0) -> None:
        if not self._active():
            return
        try:
            self._log.append(kind, payload, flags)
            self._append_waiting()
        except OSError as error:
            self._stop(error)

    def _append_waiting(self) -> None:
        while self._waiting and not self._ended:
            self._log.append(*self._waiting.pop(0))

    def _finish(self, payload: tuple[bytes, int]) -> None:
        try:
            self._log.settle()
            self._append_waiting()
            self._log.append(Kind.END, *payload)
            self._log.sync()
        except OSError as error:
            self._stop(error)
        self._ended = True

    def _copy_names(self, *, everything: bool = False) -> None:
        """Write lists of names a second time: new ones at once, all of them now and then."""
        everything = everything or self._log.size >= self._repeat_at
        before = self._log.size
        for names in self._names.payloads(0 if everything else self._copied_ids):
            self._append(Kind.NAMES, *encode_json(names))
        self._copied_ids = self._names.next_id
        if everything:
            size = self._log.size
            self._repeat_every = max(
                min(4 * self._repeat_every, _LAST_REPEAT_BYTES), _REPEAT_SHARE * (size - before)
            )
            self._repeat_at = size + self._repeat_every

    def _stop(self, error: OSError) -> None:
        if self.failed is not None:
            return
        self.failed = error
        message = (
            f"everybit records no more of this run: {self.path / self.log_name}: "
            f"{(error.strerror or str(error)).lower()}; the job goes on"
        )
        try:
            warnings.warn(message, RecordingStopped, stacklevel=4)
        except Exception:
            # Warnings are errors here, or somebody's hook failed: the job goes on all the same.
            logging.getLogger("everybit").warning(message)
