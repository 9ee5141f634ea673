"""The check that notes which small files the program read before its first step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.boundary import Boundary
from everybit.guard.check import Check
from everybit.host.read_files import read_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment


class ReadFilesCheck(Check):
    """Note digests of configurations, vocabularies and tables, once; it judges nothing."""

    def __init__(self) -> None:
        self._told = False
        self._due = False
        read_files.listen()

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Stop listening where the first step ends."""
        if boundary is Boundary.STEP_END and not self._told:
            self._told = self._due = True
            read_files.rest()
        return ()

    def observed(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return what was read, with the first step."""
        if not self._due:
            return ()
        self._due = False
        told = read_files.to_json()
        return [("read-files", told)] if told["files"] or told["whole"] else ()

    def close(self) -> None:
        """Stop listening where there was no step."""
        if not self._told:
            read_files.rest()
