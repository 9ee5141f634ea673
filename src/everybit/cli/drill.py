"""`everybit drill [SCRIPT [ARGS]...]`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from everybit.cli.failure import tell
from everybit.cli.output import emit
from everybit.cli.progress import draw_count


@click.command(
    "drill",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("--faults", type=int, default=4, metavar="N", show_default=True,
              help="Try so many faults of each location, dtype and pattern.")  # fmt: skip
@click.option("--seed", type=int, default=0, metavar="S", show_default=True,
              help="Draw everything from this seed; the same one, the same table.")  # fmt: skip
@click.option("--workers", type=int, metavar="W",
              help="Train in so many processes at once [default: one a core].")  # fmt: skip
@click.option("--steps", type=int, default=12, metavar="N", show_default=True,
              help="End SCRIPT after so many updates in each trial.")  # fmt: skip
@click.option("--site", "sites", multiple=True, metavar="LOCATION",
              help="Strike there only: weight, activation, ...; may be given again.")  # fmt: skip
@click.option("--dtype", "dtypes", multiple=True, metavar="DTYPE",
              help="Strike float32, bfloat16 or float16 only; may be given again.")  # fmt: skip
@click.option(
    "--closure",
    is_flag=True,
    help="Train the built-in models through guard.step, which undoes what is found.",
)
@click.option("--ranks", type=int, default=1, metavar="N", show_default=True,
              help="Start SCRIPT as so many ranks, as torchrun does; one errs.")  # fmt: skip
@click.option("--results", type=click.Path(path_type=Path), metavar="FILE",
              help="Keep each outcome here; asked again, go on where it ended.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="page.html",
              help="Write the heat map as a page.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print what was missed, and nothing else.")
@click.option("-v", "--verbose", is_flag=True, help="Print each dtype and pattern as well.")
@click.argument("script", required=False, metavar="[SCRIPT]")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    faults: int,
    seed: int,
    workers: int | None,
    steps: int,
    sites: tuple[str, ...],
    dtypes: tuple[str, ...],
    closure: bool,
    ranks: int,
    results: Path | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    script: str | None,
    args: tuple[str, ...],
) -> int:
    """Break a training on purpose, many times, and tell what is caught.

    Trains small built-in models, or SCRIPT, again and again under a Guard that checks every step;
    each time one bit, run, tile or lane is wrong somewhere: in weights, moments, gradients,
    activations, what autograd keeps, a batch, a checkpoint. The table says which check caught it,
    after how many steps, whether it was placed and healed, and what missed ones did to the loss.

    Exits with 1 where a single fault at an exactly tested place was missed or an alarm was false,
    with 3 where trials could not be carried out.

    \b
    Examples:
      everybit drill --out drill.html
      everybit drill --results drill.jsonl --faults 20
      everybit drill --closure --faults 2
      everybit drill --steps 8 --faults 1 train.py --batch-size 4
      everybit drill --ranks 3 --steps 8 --faults 1 train_ddp.py
    """
    from everybit.api.drill import drill
    from everybit.report.drill_text import render_drill, summary_of

    shown = sys.stderr.isatty() and not quiet

    def progress(done: int, trials: int) -> None:
        if shown:
            draw_count("trials", done, trials)

    result = drill(
        script,
        args,
        faults=faults,
        seed=seed,
        workers=workers,
        steps=steps,
        sites=sites,
        dtypes=dtypes,
        closure=closure,
        ranks=ranks,
        results=results,
        out=out,
        progress=progress,
    )
    if as_json:
        import json

        from everybit.report.strict_json import strict

        emit(json.dumps(strict(result.table), indent=2, allow_nan=False))
    elif quiet:
        heads = ("MISSED", "not tried")
        told = [line for line in summary_of(result.table) if line.startswith(heads)]
        if told:
            emit("\n".join(told))
    else:
        emit(render_drill(result.table, verbose=verbose))
    if result.page is not None and not quiet:
        tell(f"page written to {result.page}")
    if not result.ok:
        return 1
    return 0 if result.complete else 3
