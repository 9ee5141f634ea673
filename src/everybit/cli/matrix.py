"""`everybit matrix train.py --repeat 2 --threads 1,2 --torch 2.6.0,2.13.0`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everybit.cli.options import GivenPath, config_options
from everybit.cli.output import emit
from everybit.cli.progress import draw_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.cli.output import Output
    from everybit.core.config import Config


def _listed(kind: type) -> Callable[[click.Context, click.Parameter, str | None], tuple[Any, ...]]:
    """Return a callback that divides a value by its commas."""

    def divide(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[Any, ...]:
        try:
            return tuple(kind(part.strip()) for part in value.split(",")) if value else ()
        except ValueError:
            raise click.BadParameter(f"{value!r} is no list such as 1,2", ctx, param) from None

    return divide


@click.command(
    "matrix",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": True},
)
@click.option("--repeat", type=int, default=2, metavar="N", show_default=True,
              help="Run it so many times under each setting.")  # fmt: skip
@click.option("--threads", metavar="N,N", callback=_listed(int),
              help="Run it with these numbers of threads.")  # fmt: skip
@click.option("--torch", "versions", metavar="V,V", callback=_listed(str),
              help="Run it with these versions of torch, each in its own environment.")  # fmt: skip
@click.option("--requirements", type=GivenPath(), metavar="FILE",
              help="What it needs beside torch, for the environments that are made.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR",
              help="Keep the runs here; asked again, go on where it ended.")  # fmt: skip
@click.option("--in-place", is_flag=True,
              help="Run it here and not in copies of this folder.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Run again what was finished before.")
@click.argument("script", metavar="SCRIPT", type=GivenPath())
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
@config_options("matrix")
def command(
    repeat: int,
    threads: tuple[int, ...],
    versions: tuple[str, ...],
    requirements: Path | None,
    out: Path | None,
    in_place: bool,
    fresh: bool,
    script: Path,
    args: tuple[str, ...],
    config: Config,
    output: Output,
) -> int:
    """Run a script again and again, and tell whether it repeats.

    SCRIPT runs under each number of threads and version of torch, each time in a copy of the
    working directory, and all runs are compared with the first: value by value under versions that
    can be watched (2.6 and newer), by what it prints and writes under older ones.

    Exits with 1 where a run parts from its own repeat, with 3 where a version could not be
    installed or a run ended badly. Options of everybit come before `--`, those of SCRIPT after it.

    \b
    Examples:
      everybit matrix train.py
      everybit matrix train.py --repeat 2 --threads 1,2 --torch 2.6.0,2.13.0
      everybit matrix train.py --requirements requirements.txt --torch 2.13.0 -- --lr 0.1
    """
    from everybit.api.matrix import matrix
    from everybit.core.config import Format
    from everybit.report.matrix_text import render_matrix

    def progress(done: int, total: int, name: str) -> None:
        if output.shows_progress:
            draw_count("runs", done, total, name)

    result = matrix(
        script,
        args,
        repeat=repeat,
        threads=threads,
        torch=versions,
        out=out,
        requirements=requirements,
        in_place=in_place,
        fresh=fresh,
        progress=progress,
    )
    if config.format == Format.TEXT and output.file is None and not config.quiet:
        emit(render_matrix(result.verdict))
    code = output.verdict(result.verdict)
    output.note(f"runs are kept in {result.folder}")
    return code
