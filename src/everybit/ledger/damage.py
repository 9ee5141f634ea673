"""What is wrong with a run's own record, and between which steps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One damaged place of a run folder.

    Attributes:
        path: File name in the run folder.
        byte_range: `[start, end)` of the bytes that cannot be used; empty where bytes are missing.
        what: One clause for people.
        step_before: The last intact step before it in this file, if any.
        step_after: The first intact step after it, if any.
        rank: Whose log it is; None for `run.json`.
    """

    path: str
    byte_range: tuple[int, int]
    what: str
    step_before: int | None = None
    step_after: int | None = None
    rank: int | None = None
