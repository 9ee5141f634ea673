"""A paused run: a state file a rank in the run folder, and the word that lets it go on.

`<run>/paused/rank-00000.json` is there while a rank waits; who waits and where is in it. The answer
is `<run>/paused/rank-00000.answer.json`, and counts for one pause only: it carries that pause's
token, drawn anew each time, so that an answer to an earlier pause releases no later one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from everybit.core.atomic import write_atomically
from everybit.core.errors import PathError
from everybit.ledger.folder import encode_plain, open_regular
from everybit.ledger.process import Liveness, ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER: Final = "paused"
SCHEMA: Final = "everybit.pause/1"
#: Longer files are none of ours.
_MAX_BYTES: Final = 256 * 1024
_NAME: Final = re.compile(r"rank-(\d{5,9})\.json")
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")


class Answer(StrEnum):
    """What a paused job is told."""

    GO = "go"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A rank that waits to be released.

    Attributes:
        rank: Rank of the process.
        step: Updates finished or skipped when it began to wait.
        rule: Rule of the first finding it waits for.
        message: That finding's message.
        incident: Folder of its scene, relative to the run folder; "" where none was kept.
        since_s: When it began, seconds since the epoch.
        until_s: When it goes on by itself.
        attempt: Attempt of the rank.
        process: Who waits.
        token: Names this pause among all.
    """

    rank: int
    step: int
    rule: str
    message: str
    incident: str
    since_s: float
    until_s: float
    attempt: int
    process: ProcessIdentity = field(default_factory=ProcessIdentity.current)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def liveness(self) -> Liveness:
        """What can be said of the process that waits."""
        return self.process.liveness()

    def to_json(self) -> dict[str, Any]:
        """Return the content of the state file."""
        return {
            "schema": SCHEMA,
            "token": self.token,
            "rank": self.rank,
            "attempt": self.attempt,
            "step": self.step,
            "rule": self.rule,
            "message": self.message,
            "incident": self.incident,
            "since_s": self.since_s,
            "until_s": self.until_s,
            "process": self.process.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self | None:
        """Rebuild it; None where the data are none of ours."""
        numbers = {name: data.get(name) for name in ("rank", "step", "attempt")}
        times = {name: data.get(name) for name in ("since_s", "until_s")}
        texts = {name: data.get(name) for name in ("rule", "message", "incident", "token")}
        process = data.get("process")
        whole = (
            data.get("schema") == SCHEMA
            and all(type(value) is int and value >= 0 for value in numbers.values())
            and all(type(value) in (int, float) for value in times.values())
            and all(isinstance(value, str) for value in texts.values())
            and isinstance(process, dict)
        )
        if not whole or not _TOKEN.fullmatch(str(texts["token"])):
            return None
        identity = ProcessIdentity.from_json(process or {})
        if identity is None:
            return None
        values: dict[str, Any] = {**numbers, **times, **texts}
        return cls(**values, process=identity)


def begin_pause(run: Path, pause: Pause) -> None:
    """Write the state file; answers to earlier pauses of the rank are removed.

    Raises:
        PathError: It cannot be written.
    """
    folder = run / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _answer_file(run, pause.rank).unlink(missing_ok=True)
    except OSError as error:
        raise PathError.from_os_error(error, folder) from error
    write_atomically(_state_file(run, pause.rank), encode_plain(pause.to_json()), mode=0o600)


def end_pause(run: Path, pause: Pause) -> None:
    """Remove the state file and the answer of this pause; another pause's are left alone."""
    state = _read(_state_file(run, pause.rank))
    if state.get("token") == pause.token:
        with contextlib.suppress(OSError):
            _state_file(run, pause.rank).unlink()
    if _read(_answer_file(run, pause.rank)).get("token") == pause.token:
        with contextlib.suppress(OSError):
            _answer_file(run, pause.rank).unlink()


def answer_pause(run: Path, pause: Pause, answer: Answer) -> None:
    """Tell a paused rank to go on or to stop.

    Raises:
        PathError: The answer cannot be written.
    """
    data = {"token": pause.token, "answer": str(answer), "at_s": time.time()}
    write_atomically(_answer_file(run, pause.rank), json.dumps(data).encode(), mode=0o600)


def read_answer(run: Path, pause: Pause) -> Answer | None:
    """Return what this pause was told; None where nothing is there, or something else."""
    data = _read(_answer_file(run, pause.rank))
    if data.get("token") != pause.token:
        return None
    with contextlib.suppress(ValueError):
        return Answer(str(data.get("answer")))
    return None


def list_pauses(run: Path) -> tuple[Pause, ...]:
    """Return the state files of a run, by rank; also those whose process is gone.

    Raises:
        PathError: The folder cannot be read.
    """
    try:
        with os.scandir(run / FOLDER) as entries:
            names = sorted(entry.name for entry in entries if _NAME.fullmatch(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise PathError.from_os_error(error, run / FOLDER) from error
    found = []
    for name in names:
        pause = Pause.from_json(_read(run / FOLDER / name))
        if pause is not None and _state_file(run, pause.rank).name == name:
            found.append(pause)
    return tuple(found)


def _state_file(run: Path, rank: int) -> Path:
    return run / FOLDER / f"rank-{rank:05d}.json"


def _answer_file(run: Path, rank: int) -> Path:
    return run / FOLDER / f"rank-{rank:05d}.answer.json"


def _read(path: Path) -> dict[str, Any]:
    """Return a file's JSON object; empty where it is none, or not there."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(_MAX_BYTES + 1)
        value = json.loads(data) if len(data) <= _MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
