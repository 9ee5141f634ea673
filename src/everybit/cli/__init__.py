"""The command line: a verb a file. Each parses, calls `everybit.api`, and renders; no logic."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import TYPE_CHECKING

import click

from everybit._version import __version__
from everybit.cli.failure import exit_code_of
from everybit.cli.streams import prepare_streams
from everybit.cli.verbs import VerbGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


@click.group(
    cls=VerbGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="VERB [ARGS]...",
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="everybit", message="%(prog)s %(version)s")
@click.pass_context
def everybit(ctx: click.Context) -> None:
    """Find, place, explain and undo silent data corruption in PyTorch."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        args: Arguments without the program's name; `sys.argv[1:]` where None.
    """
    prepare_streams()
    if args is None and sys.argv[1:2] not in (["run"], ["demo"]):
        # The process ends with the verb: walking its whole heap once more would free nothing.
        # What a script under `run` leaves behind is its own, and may have finalisers.
        atexit.register(gc.freeze)
    try:
        code = everybit.main(
            args=None if args is None else list(args), prog_name="everybit", standalone_mode=False
        )
        if not sys.stdout.closed:  # A script that `run` ran may have closed it.
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        return exit_code_of(error)
    return code if isinstance(code, int) else 0
