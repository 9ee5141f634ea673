"""`everybit diff A B`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everybit.cli.options import config_options

if TYPE_CHECKING:
    from everybit.cli.output import Output
    from everybit.core.config import Config

_PATH = click.Path(path_type=Path)


@click.command("diff")
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
@click.option(
    "--zoom",
    is_flag=True,
    help="Run both programs again up to the step where they part, and find the operation.",
)
@click.option(
    "--cross",
    metavar="EVAL.PY[:NAME]",
    help="Of checkpoints: evaluate both by this file's function, here and on another side.",
)
@click.option(
    "--export",
    type=_PATH,
    metavar="FILE",
    help="With --cross: write what came out here to FILE, for the other side.",
)
@click.option(
    "--against",
    type=_PATH,
    metavar="FILE|RUN",
    help="With --cross: what came out on the other side, an exported file or a recorded run.",
)
@click.option(
    "--out",
    type=_PATH,
    metavar="PAGE",
    help="Of runs: write a page that shows both to PAGE.",
)
@config_options("diff")
def command(
    a: Path,
    b: Path,
    zoom: bool,
    cross: str | None,
    export: Path | None,
    against: Path | None,
    out: Path | None,
    config: Config,
    output: Output,
) -> int:
    """Find where two runs, or two model files or folders, part.

    Two runs are walked side by side in causal order: environment and code, initial weights, then
    random streams, batch, loss, gradients and weights of each step. Two files are compared tensor
    by tensor, across formats. Exit code 1 where they part, 3 where not all could be compared.

    \b
    Examples:
      everybit diff everybit-runs/monday everybit-runs/tuesday
      everybit diff model.pt model.safetensors
      everybit diff checkpoints/a checkpoints/b --json
    """
    from everybit.api.diff import diff
    from everybit.cli.progress import reading

    if cross is None and (export or against):
        raise click.UsageError("--export and --against belong to --cross EVAL.PY")
    if cross is not None:
        if zoom or out:
            raise click.UsageError("--cross evaluates checkpoints; --zoom and --out are of runs")
        from everybit.api.cross import cross as evaluate_both

        return output.verdict(
            evaluate_both(
                cross,
                a,
                b,
                export=export,
                against=against,
                progress=lambda what: output.note(f"evaluating {what}"),
            )
        )
    if out is not None:
        from everybit.api.report_two import check_two_run_page

        check_two_run_page(a, b, out)
    # A walk over two runs ends where they part: no total is known before.
    files = () if (a / "run.json").exists() else (a, b)
    with reading(output, "comparing", files) as progress:
        verdict = diff(a, b, progress=progress, zoom=zoom, zooming=_Zooming(output))
    code = output.verdict(verdict)
    if out is not None:
        from everybit.api.report_two import write_two_run_page

        write_two_run_page(verdict, a, b, out)
        output.note(f"page written to {out}")
    return code


class _Zooming:
    """Says on a terminal how far the programs that are run again have come."""

    def __init__(self, output: Output) -> None:
        self._shown = output.shows_progress
        self._side, self._began = "", 0.0

    def __call__(self, side: str, done: int, total: int) -> None:
        """Show the steps done of a run, and about how long the rest takes."""
        if not self._shown:
            return
        if side != self._side or done <= 1:
            self._side, self._began = side, time.monotonic()
        spent = time.monotonic() - self._began
        left = f", about {spent / (done - 1) * (total - done):.0f} s left" if done > 1 else ""
        text = f"run {side} computed again: step {done:,} of {total:,}{left}"
        click.echo(f"\reverybit: {text:<72}\r", err=True, nl=False)
