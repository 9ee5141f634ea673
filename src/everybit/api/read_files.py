"""The files that a recorded run read before its first step: from its logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.ledger import LogReader


def read_files_of(logs: Iterable[LogReader]) -> dict[str, Any] | None:
    """Return what the ranks read, together: see `RunSide.read_files`; None where none tells."""
    told = [
        observation.data
        for log in logs
        for observation in log.observations
        if observation.kind == "read-files"
    ]
    if not told:
        return None
    files = {name: digest for each in told for name, digest in (each.get("files") or {}).items()}
    more = sum(each.get("more", 0) for each in told)
    return {"files": files, "whole": all(each.get("whole") for each in told), "more": more}
