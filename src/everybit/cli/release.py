"""`everybit release RUN`: let a paused job go on."""

from __future__ import annotations

from pathlib import Path

import click

from everybit.cli.failure import tell


@click.command("release")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--stop", is_flag=True, help="End the job instead, as --on-finding stop would.")
def command(run: Path, stop: bool) -> int:
    """Let a paused job go on, or end it.

    With --on-finding pause a job waits where a finding was made: look at it with `everybit
    report`, at its scene with `everybit.load_incident`, then let it go on. All ranks are released
    together.

    \b
    Examples:
      everybit release everybit-runs/20260131-1200-train
      everybit release runs/a --stop
    """
    from everybit.api.release import release
    from everybit.ledger import Liveness

    for pause in release(run, stop=stop):
        done = "is told to stop" if stop else "goes on"
        unseen = pause.liveness is not Liveness.RUNNING
        where = ", if it still runs there (on another machine or in a container)" if unseen else ""
        tell(f"rank {pause.rank}, paused at step {pause.step} by {pause.rule}, {done}{where}")
    return 0
