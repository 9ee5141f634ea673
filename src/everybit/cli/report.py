"""`everybit report`: show what a run recorded, as text, JSON or a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from everybit.cli.options import config_options

if TYPE_CHECKING:
    from everybit.cli.output import Output
    from everybit.core.config import Config


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PAGE",
    help="Write the page to PAGE [default: report.html in the run folder].",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Compare with this run, as `everybit diff` does; the page shows both.",
)
@config_options("report")
def command(
    run: Path, out: Path | None, against: Path | None, config: Config, output: Output
) -> int:
    """Show what a run recorded, as text, JSON or a page.

    Prints the verdict and writes one self-contained HTML page. Works on a run that is still going,
    was killed, or whose record is damaged. With --json a page is written only where --out asks for
    one.

    \b
    Examples:
      everybit report everybit-runs/2026-01-31-train
      everybit report runs/a --out a.html
      everybit report runs/a --json
      everybit report runs/a --against runs/b --out both.html
    """
    from everybit.api.report import PAGE_NAME, make_report
    from everybit.core.config import Format
    from everybit.core.errors import PathError

    if against is not None:
        return _show_two(run, against, out, output)
    page = out
    if page is None and config.format is Format.TEXT:
        page = run / PAGE_NAME
    progress = _show_progress if output.shows_progress else None
    try:
        made = make_report(run, page=page, progress=progress)
    except PathError as error:
        if out is None and page is not None and error.where == str(page):
            raise PathError(
                error.what, where=error.where, todo="name a place with --out"
            ) from error
        raise
    code = output.verdict(made.verdict)
    if made.page is not None:
        output.note(f"page written to {made.page}")
    return code


def _show_two(run: Path, other: Path, out: Path | None, output: Output) -> int:
    from everybit.api.diff import diff
    from everybit.api.report_two import PAGE_NAME, check_two_run_page, write_two_run_page
    from everybit.core.config import Format

    page = out
    if page is None and output.config.format is Format.TEXT:
        page = run / PAGE_NAME
    if page is not None:
        check_two_run_page(run, other, page)
    verdict = diff(run, other)
    code = output.verdict(verdict)
    if page is not None:
        write_two_run_page(verdict, run, other, page)
        output.note(f"page written to {page}")
    return code


def _show_progress(num_steps: int) -> None:
    # Blanked at once where the next line is shorter; the verdict follows on stdout.
    click.echo(f"\reverybit: {num_steps:,} steps read\r", err=True, nl=False)
