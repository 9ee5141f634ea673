"""Errors that advise: each says what is wrong, where, and what to do.

The tree::

    EverybitError
    ├── UsageError              a flag, a path, a configuration: exit code 2
    │   ├── PathError           a path that cannot be opened or written
    │   └── ConfigError         an unknown key or an impossible value
    ├── DamagedError            a verb that needs whole input got a damaged file (names the rule)
    ├── StoppedError            `on_finding="stop"` ended the run (raised out of the training loop)
    └── FindingsError           `Verdict.raise_for_findings()`, or a refused `load_into`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.core.finding import Finding


class EverybitError(Exception):
    """Base of all errors that everybit raises on purpose.

    Args:
        what: What is wrong, as one clause without a full stop.
        where: The place: a path, a flag, a key. Empty where `what` already says it.
        todo: What the reader can do about it, as one clause.
    """

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        self.what = what
        self.where = where
        self.todo = todo
        super().__init__(self.line())

    def line(self) -> str:
        """Return the one line that people see."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        text = f"{text}; {self.todo}" if self.todo else text
        return " ".join(text.split())


class UsageError(EverybitError):
    """The request cannot be carried out as asked."""


class PathError(UsageError):
    """A path cannot be opened, or a place cannot be written."""

    @classmethod
    def from_os_error(cls, error: OSError, path: object, *, todo: str = "") -> PathError:
        """Tell an `OSError` about `path` in the house style."""
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        advice = todo or _ADVICE.get(type(error), "")
        return cls(reason, where=str(path), todo=advice)


_ADVICE: dict[type, str] = {
    FileNotFoundError: "check the spelling of the path",
    PermissionError: "check who may read and write it",
    IsADirectoryError: "name a file in it",
    NotADirectoryError: "a part of the path is a file, not a folder",
    FileExistsError: "name another place",
}


class ConfigError(UsageError):
    """A configuration key or value that cannot be used."""

    @classmethod
    def unknown_key(cls, key: str, known: Iterable[str], *, where: str) -> ConfigError:
        """Build the error for an unknown key; suggests the nearest known one."""
        import difflib

        known = sorted(known)
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        todo = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
        return cls(f"unknown key {key!r}", where=where, todo=todo)


class DamagedError(EverybitError):
    """A damaged file was given to a verb that needs a whole one.

    Args:
        what: What is wrong with it.
        rule: The rule that `everybit verify` would report.
        where: The path.
        todo: What to do.
    """

    def __init__(self, what: str, *, rule: str, where: str = "", todo: str = "") -> None:
        self.rule = rule
        super().__init__(
            f"{what} ({rule})",
            where=where,
            todo=todo or f"`everybit verify` places the damage, `everybit rule {rule}` explains it",
        )


class StoppedError(EverybitError):
    """The policy `stop` ended the run at a finding."""


class FindingsError(EverybitError):
    """A verdict with findings was asked to raise, or a load was refused because of them.

    Args:
        what: What is wrong.
        where: The place.
        todo: What to do.
        findings: All of them, the first one first.
    """

    def __init__(
        self, what: str, *, where: str = "", todo: str = "", findings: Sequence[Finding] = ()
    ) -> None:
        self.findings = tuple(findings)
        super().__init__(what, where=where, todo=todo)
