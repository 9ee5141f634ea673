"""A run folder read back: its logs by rank and attempt, and what is wrong with the whole."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.errors import PathError
from everybit.ledger.damage import Damage
from everybit.ledger.folder import RUN_FILE, RunFile, list_logs, log_name, read_run_file
from everybit.ledger.incident import IncidentEntry, list_incidents
from everybit.ledger.pause import Pause, list_pauses
from everybit.ledger.process import Liveness
from everybit.ledger.reader import LogReader

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from everybit.core.samples import SampleRecord


class RunReader:
    """A run folder. Made by `open_run`; damage is in `damage`, never raised.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path, *, run_file: RunFile, attempts: dict[int, list[int]]) -> None:
        self.path = path
        self._run_file = run_file
        self._logs = {
            rank: [
                LogReader(
                    path / log_name(rank, attempt),
                    rank=rank,
                    attempt=attempt,
                    run=run_file.digest,
                )
                for attempt in numbers
            ]
            for rank, numbers in attempts.items()
        }

    @property
    def info(self) -> dict[str, Any]:
        """What `run.json` says; as much as can be read of a damaged one."""
        return dict(self._run_file.info)

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a log, sorted."""
        return list(self._logs)

    def logs(self, rank: int) -> list[LogReader]:
        """Return the logs of a rank, by attempt; none where it has none."""
        return list(self._logs.get(rank, ()))

    def log(self, rank: int = 0) -> LogReader:
        """Return the newest log of a rank.

        Raises:
            PathError: It has none.
        """
        if not self._logs.get(rank):
            known = ", ".join(map(str, self.ranks)) or "none"
            raise PathError(
                f"no log of rank {rank}", where=str(self.path), todo=f"ranks on record: {known}"
            )
        return self._logs[rank][-1]

    def samples(self, rank: int = 0) -> Iterator[SampleRecord]:
        """Yield the batches that were delivered to a rank, in its newest attempt.

        Raises:
            PathError: It has no log.
        """
        yield from self.log(rank).samples()

    @property
    def alive(self) -> bool:
        """Whether any rank's newest log is still being written on this machine."""
        return any(logs[-1].alive for logs in self._logs.values())

    @property
    def incidents(self) -> tuple[IncidentEntry, ...]:
        """The incidents whose scenes are kept, by step; `load_incident(entry.path)` reads one."""
        return list_incidents(self.path)

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """The ranks that wait to be released, as far as can be seen from this machine.

        A rank whose process is gone, or whose log has ended, waits for nothing.
        """
        return tuple(
            pause
            for pause in list_pauses(self.path)
            if pause.liveness is not Liveness.GONE and not self._has_ended(pause)
        )

    def _has_ended(self, pause: Pause) -> bool:
        newest = self._logs.get(pause.rank, [])[-1:]
        return any(log.attempt > pause.attempt or log.end is not None for log in newest)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What is wrong with the record, over all its files."""
        found = [*self._run_damage]
        for logs in self._logs.values():
            for at, log in enumerate(logs):
                found += log.damage
                found += self._earlier_damage(log, logs[:at])
        return (*found, *self._missing_ranks)

    @cached_property
    def _run_damage(self) -> tuple[Damage, ...]:
        if not self._run_file.damage:
            return ()
        what, size = self._run_file.damage, self._run_file.size_bytes
        return (Damage(path=RUN_FILE, byte_range=(0, size), what=what),)

    def _earlier_damage(self, log: LogReader, before: list[LogReader]) -> list[Damage]:
        """Compare what a log's header says of the attempt before with what is there."""
        earlier = log.earlier
        if earlier is None:
            if log.attempt == 0 or not log.header:
                return []
            gone = log_name(log.rank, log.attempt - 1)
            return [] if before else [_missing(gone, log.rank, "the log is gone")]
        found = next((other for other in before if other.path.name == earlier.file), None)
        by = f"attempt {log.attempt} began after it"
        if found is None:
            return [_missing(earlier.file, log.rank, f"the log is gone; {by}")]
        if found.damage and found.tail_damaged:
            return []  # told already, and more closely
        if found.size_bytes < earlier.size_bytes:
            size = (found.size_bytes, earlier.size_bytes)
            what = f"the log was cut to {size[0]} bytes; it had {size[1]} when {by}"
            return [Damage(path=earlier.file, byte_range=size, what=what, rank=log.rank)]
        if earlier.sequence >= 0 and not found.holds(earlier.sequence, earlier.check):
            if found.damage:
                return []
            what = f"the log was replaced: it lacks the frame that was its last when {by}"
            return [_missing(earlier.file, log.rank, what)]
        return []

    @cached_property
    def _missing_ranks(self) -> tuple[Damage, ...]:
        world_size = self._run_file.info.get("world_size")
        if self._run_file.damage or type(world_size) is not int or self.alive:
            return ()
        missing = (rank for rank in range(world_size) if rank not in self._logs)
        count = world_size - sum(rank < world_size for rank in self._logs)
        told = [
            _missing(log_name(rank, 0), rank, f"no log of rank {rank}, of {world_size} ranks")
            for rank in islice(missing, _MAX_TOLD)
        ]
        if count > _MAX_TOLD:
            last = told.pop()
            what = f"no log of {count - len(told)} more ranks, of {world_size}"
            told.append(replace(last, what=what))
        return tuple(told)


#: More missing logs than this are told as one.
_MAX_TOLD = 16


def _missing(path: str, rank: int, what: str) -> Damage:
    return Damage(path=path, byte_range=(0, 0), what=what, rank=rank)


def open_run(folder: str | os.PathLike[str]) -> RunReader:
    """Open a run folder to read it; also one that is still being written.

    Args:
        folder: The run folder.

    Raises:
        PathError: There is no such folder, or it holds no run.
        UsageError: A later everybit wrote it.
    """
    path = Path(folder)
    try:
        attempts = list_logs(path)
        try:
            run_file = read_run_file(path)
        except FileNotFoundError:
            if not attempts:
                raise PathError(
                    f"not a run folder: it has no {RUN_FILE}",
                    where=str(path),
                    todo="name a folder that `everybit run` or a Guard made",
                ) from None
            run_file = RunFile(info={}, digest=None, damage="the file is gone", size_bytes=0)
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    return RunReader(path, run_file=run_file, attempts=attempts)
