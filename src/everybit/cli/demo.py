"""`everybit demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from everybit.cli.output import emit, wants_color
from everybit.cli.progress import draw_count, wipe


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to put runs, checkpoint and pages [default: everybit-runs/<time>-demo].",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only what failed, and the page's path.")
def command(out: Path | None, quiet: bool) -> int:
    """Train a small GPT, break it, and see each fault caught, named and undone.

    Trains on the sources of Python's standard library, on the CPU, in about a minute. Exits with 1
    if any fault was missed, named wrong, or left unhealed.

    \b
    Examples:
      everybit demo
      everybit demo --out /tmp/demo
    """
    from everybit.api.demo import demo
    from everybit.guard.policy import LOGGER

    color = wants_color(sys.stdout)
    shown = sys.stderr.isatty() and not quiet

    def say(line: str) -> None:
        if shown:
            wipe()
        if not quiet or "FAILED" in line:
            emit(_painted(line) if color else line)

    def progress(what: str, done: int, steps: int) -> None:
        if shown:
            draw_count(what, done, steps)

    level = LOGGER.level
    LOGGER.setLevel("ERROR")  # The demo tells each finding itself.
    try:
        result = demo(out, say=say, progress=progress)
    finally:
        LOGGER.setLevel(level)
    if quiet:
        emit(str(result.page))
    return 1 if result.failures else 0


def _painted(line: str) -> str:
    head, word, rest = line.partition("ok  ")
    if word and not head.strip():
        return f"{head}\x1b[32mok\x1b[0m  {rest}"
    if "FAILED" in line:
        return f"\x1b[1;31m{line}\x1b[0m"
    return f"\x1b[1m{line}\x1b[0m" if line[:1].isdigit() else line
