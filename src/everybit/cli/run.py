"""`everybit run train.py ARGS`."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from everybit.cli.failure import tell
from everybit.cli.options import config_options
from everybit.cli.output import wants_color
from everybit.cli.streams import restore_streams
from everybit.core.ranks import rank_and_world

if TYPE_CHECKING:
    from everybit.cli.output import Output
    from everybit.core.config import Config
    from everybit.core.verdict import Verdict


@click.command(
    "run",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("-m", "module", is_flag=True, help="TARGET is a module, as in `python -m`.")
@click.argument("target", metavar="TARGET")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
@config_options("run")
@click.pass_context
def command(
    ctx: click.Context,
    module: bool,
    target: str,
    args: tuple[str, ...],
    config: Config,
    output: Output,
) -> int:
    """Run a training script and watch its weights and optimizer state.

    TARGET runs as under `python`, with no edit: same arguments, same numbers, same exit code.
    Every step's batch, random streams, loss, gradients and weights are recorded as digests;
    weights, buffers and optimizer state are tested before each use. What is found goes to stderr
    and into the run folder.

    \b
    Examples:
      everybit run train.py --lr 3e-4
      everybit run --run runs/a --on-finding heal train.py
      everybit run -m mypackage.train
      torchrun --nproc-per-node 2 -m everybit run --run-dir runs/a train.py
    """
    from everybit.api.run import run

    restore_streams()
    outcome = run(target, args, module=module, config=config)
    if rank_and_world(os.environ)[0] == 0:
        if outcome.stopped:
            tell(outcome.stopped)
        if not config.quiet or outcome.verdict.findings:
            _show(outcome.verdict, output)
        told = shlex.quote(str(outcome.folder))
        output.note(f"recorded in {outcome.folder}; `everybit report {told}` shows it")
    if outcome.interrupted:
        # As `python` ends then: shells stop their loops only where the signal itself ended us.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    if config.exit_zero:
        return 0
    given = ctx.get_parameter_source("fail_on") is not ParameterSource.DEFAULT
    if given and outcome.verdict.exit_code(config.fail_on) == 1:
        return 1
    return outcome.exit_code


def _show(verdict: Verdict, output: Output) -> None:
    from everybit.report.text import render_verdict

    color = wants_color(sys.stderr)
    text = render_verdict(verdict, color=color, verbose=output.config.verbose)
    sys.stderr.write(text if text.endswith("\n") else text + "\n")
