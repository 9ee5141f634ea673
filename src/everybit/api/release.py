"""`everybit.release`: let a paused job go on, or end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.errors import UsageError
from everybit.ledger import Answer, Liveness, open_run
from everybit.ledger.pause import answer_pause, list_pauses

if TYPE_CHECKING:
    import os

    from everybit.ledger import Pause, RunReader


def release(run: str | os.PathLike[str], *, stop: bool = False) -> tuple[Pause, ...]:
    """Tell every paused rank of a run to go on; they do within a second.

    Args:
        run: The run folder.
        stop: End the job instead, as the policy `stop` would have.

    Returns:
        The pauses that were answered, by rank.

    Raises:
        PathError: It is no run folder, or the answer cannot be written.
        UsageError: Nothing waits there: the run is not paused, or the paused process is gone.
    """
    opened = open_run(run)
    waiting = opened.pauses
    if not waiting:
        raise _nothing_waits(opened)
    for pause in waiting:
        answer_pause(opened.path, pause, Answer.STOP if stop else Answer.GO)
    return waiting


def _nothing_waits(run: RunReader) -> UsageError:
    gone = [pause for pause in list_pauses(run.path) if pause.liveness is Liveness.GONE]
    if gone and not run.alive:
        pids = ", ".join(str(pause.process.pid) for pause in gone)
        return UsageError(
            f"it was paused at step {gone[0].step}, and the process is gone (pid {pids})",
            where=str(run.path),
            todo="start the job again; `everybit report` shows what was found",
        )
    state = "it is running" if run.alive else "it is not running"
    return UsageError(
        f"nothing is paused here: {state}", where=str(run.path), todo="check the run's name"
    )
