"""A rehearsal: this process runs a program again, and its Guards record elsewhere.

The folder that a Guard is told to write into holds the run that is computed again: a second attempt
in it would be one more thing to explain. And each Guard carries one more check, which looks closer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from everybit.core.config import OnFinding

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.config import Config
    from everybit.guard.check import Check
    from everybit.guard.record import RecordCheck
    from everybit.guard.state import CarriedState


class Rehearsal(Protocol):
    """What a process that runs a program again asks of its Guards."""

    def place(self, wanted: Path) -> Path:
        """Return where a Guard records that was to record in `wanted`."""
        ...

    def check(self, run: Path, state: CarriedState, record: RecordCheck) -> Check | None:
        """Return a check for the Guard that records in `run`; it is asked behind all others."""
        ...


_current: list[Rehearsal] = []


def rehearse(rehearsal: Rehearsal) -> None:
    """Have the Guards that this process makes from now on ask `rehearsal`."""
    _current[:] = [rehearsal]


def rehearsed(config: Config) -> Config:
    """Return the settings of a Guard: a rehearsal tells nobody, and waits for nobody."""
    if not _current:
        return config
    waits = config.on_finding in (OnFinding.PAUSE, OnFinding.STOP, OnFinding.WARN)
    return replace(
        config,
        webhook=None,
        track=None,
        preflight=False,
        replay_every=0,
        on_finding=OnFinding.RECORD if waits else config.on_finding,
    )


def place_of(wanted: Path) -> Path:
    """Return where a Guard records: where it wants to, where nothing is rehearsed."""
    return _current[0].place(wanted) if _current else wanted


def checks_of(run: Path, state: CarriedState, record: RecordCheck) -> list[Check]:
    """Return the checks that a rehearsal adds."""
    check = _current[0].check(run, state, record) if _current else None
    return [] if check is None else [check]
