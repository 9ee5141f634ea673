"""`everybit replay RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everybit.cli.options import GivenPath, config_options

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.cli.output import Output
    from everybit.core.config import Config


@click.command("replay")
@click.argument("run", type=GivenPath(), metavar="RUN")
@click.option("--step", type=click.IntRange(min=0), metavar="K", help="Only what step K kept.")
@click.option("--device", default="cpu", metavar="DEVICE", help="Where: cpu, cuda:0 ...")
@click.option(
    "--times", type=click.IntRange(min=1), default=3, metavar="N", help="How often (default: 3)."
)
@click.option(
    "--import-code",
    is_flag=True,
    help="Import the program's own classes that a capsule names. This runs their code.",
)
@config_options("replay")
def command(
    run: Path,
    step: int | None,
    device: str,
    times: int,
    import_code: bool,
    config: Config,
    output: Output,
) -> int:
    """Compute what replay found wrong again, here or on another device.

    When a Guard finds that a part of a model gave other bits than its repeats (CMP701), it keeps
    that part alone in the run folder: weights, inputs, random state, what came first and what the
    repeats gave. This computes it again. The same bits as the repeats clear this device and
    confirm the fault; the suspected bits mean that this device errs alike. On another kind of
    device neither is expected, and float64 tells which of the two is rounding.

    RUN is a run folder, or one capsule in its folder `capsules`. No pickle is read. Exit code 1
    where this device gives the suspected result, 3 where a capsule could not be computed.

    \b
    Examples:
      everybit replay everybit-runs/monday
      everybit replay everybit-runs/monday --step 1200 --device cuda:1
    """
    from everybit.api.replay import replay

    verdict = replay(
        run, step=step, device=device, times=times, import_code=import_code, progress=output.note
    )
    code = output.verdict(verdict)
    for each in verdict.stats["attempts"]:
        output.note(f"{each['module'] or 'the model'}, step {each['step']}: {each['meaning']}")
    return code
