"""`everybit lint PATH...`."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from everybit.cli.options import GivenPath, config_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from everybit.cli.output import Output
    from everybit.core.config import Config
    from everybit.core.verdict import Verdict


@click.command("lint")
@click.argument("paths", nargs=-1, required=True, type=GivenPath(), metavar="PATH...")
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out files and folders (vendor, 'legacy/*', '*_pb2.py'); may be repeated.",
)
@click.option("--fix", is_flag=True, help="Make the fixes that are certain.")
@click.option("--diff", is_flag=True, help="Show those fixes as a diff; write nothing.")
@click.option(
    "--baseline",
    type=GivenPath(),
    metavar="FILE",
    help="Tell only what is not in this file of known findings.",
)
@click.option(
    "--write-baseline",
    is_flag=True,
    help="Write what is found to the file of --baseline.",
)
@config_options("lint")
def command(
    paths: tuple[Path, ...],
    exclude: tuple[str, ...],
    fix: bool,
    diff: bool,
    baseline: Path | None,
    write_baseline: bool,
    config: Config,
    output: Output,
) -> int:
    """Look for unsafe loads and silent mistakes in training code.

    Python files and notebooks are parsed, never imported or executed: names are followed through
    imports, aliases, partial, dictionaries of arguments and the project's own wrappers. Shell
    scripts, YAML, Dockerfiles and .env files are read for variables that switch protections off.

    A finding that does not matter is hidden by a comment on its line, with the reason:
    `# everybit: ignore[SRC302] written by this job itself`.

    \b
    Examples:
      everybit lint src
      everybit lint train.py notebooks --exclude 'legacy/*'
      everybit lint src --diff
      everybit lint src --fix
      everybit lint src --baseline lint.json --write-baseline
      everybit lint src --baseline lint.json --format sarif -o lint.sarif
    """
    from everybit.api.lint import lint

    with _counting(output) as progress:
        verdict = lint(
            *paths,
            exclude=exclude,
            fix=fix,
            diff=diff,
            baseline=baseline,
            update_baseline=write_baseline,
            progress=progress,
        )
    return output.verdict(_without_diff(verdict, output))


def _without_diff(verdict: Verdict, output: Output) -> Verdict:
    """Print the diff of a text verdict first, as it can be applied; JSON keeps it inside."""
    from everybit.core.config import Format

    text = verdict.stats.get("diff")
    if output.config.format is not Format.TEXT or text is None:
        return verdict
    if text:
        from everybit.cli.output import emit

        emit(text)
    return replace(verdict, stats={k: v for k, v in verdict.stats.items() if k != "diff"})


@contextlib.contextmanager
def _counting(output: Output) -> Iterator[Callable[[int], None]]:
    """Yield what is told the files done; shows their number where somebody can see it."""
    if not output.shows_progress:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("linting: {task.completed:,.0f} files"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("linting", total=None)
        yield lambda number: bar.advance(task, number)
