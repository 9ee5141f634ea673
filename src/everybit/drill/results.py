"""The results of a drill in a file: appended line by line, so that it can be gone on with."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Self

from everybit._version import __version__
from everybit.core.errors import PathError, UsageError
from everybit.drill.trial import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.drill.plan import Plan

SCHEMA = "everybit.drill-results/1"


class Results:
    """Outcomes in the order in which they came; a context manager that closes the file.

    Args:
        path: The file: JSON lines, the first one about the plan; None keeps them in memory only.
        plan: Whose results they are.

    Attributes:
        outcomes: Those that are there, by the trial's key.

    Raises:
        UsageError: The file holds the results of another plan or of another version.
        PathError: It cannot be read or written.
    """

    def __init__(self, path: Path | None, plan: Plan) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self._file = None
        head = {"schema": SCHEMA, "plan": plan.digest, "version": __version__, "seed": plan.seed}
        if path is None:
            return
        try:
            if path.exists() and path.stat().st_size:
                self._read(path, head)
            self._file = path.open("a", encoding="utf-8")
            if not self._file.tell():
                self._write(json.dumps(head))
        except OSError as error:
            raise PathError.from_os_error(error, path) from error

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; it is in the file when this returns."""
        self.outcomes[outcome.trial.key] = outcome
        self._write(json.dumps(outcome.to_json()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: str) -> None:
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()

    def _read(self, path: Path, head: dict[str, object]) -> None:
        raw = path.read_bytes()
        whole, _, torn = raw.rpartition(b"\n")
        lines = whole.decode("utf-8", "replace").split("\n")
        try:
            found = json.loads(lines[0])
            outcomes = [Outcome.from_json(json.loads(line)) for line in lines[1:]]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"not the results of a drill ({type(error).__name__})",
                where=str(path),
                todo="name another file with --results",
            ) from None
        if found != head:
            raise UsageError(
                "holds the results of another drill",
                where=str(path),
                todo="ask with the same options and version, or name another file with --results",
            )
        if torn:  # A line that was being written when the drill was ended.
            os.truncate(path, len(whole) + 1)
        self.outcomes = {outcome.trial.key: outcome for outcome in outcomes}
