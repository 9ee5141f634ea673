"""`everybit scan PATH...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everybit.cli.options import GivenPath, config_options

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.cli.output import Output
    from everybit.core.config import Config


@click.command("scan")
@click.argument("paths", nargs=-1, required=True, type=GivenPath(), metavar="PATH...")
@config_options("scan")
def command(paths: tuple[Path, ...], config: Config, output: Output) -> int:
    """Tell what loading model files would do.

    Every file is looked into by its content and not by its name: pickles wherever they lie,
    archives in archives, compressed streams, configs that ask for code of their own. Known-safe
    names pass; what runs code or touches files, network or processes is an error, and what is not
    known a warning. Nothing is loaded, imported or executed.

    Exit code 1 from a warning on, so that no unknown name passes a gate unseen.

    \b
    Examples:
      everybit scan model.pt
      everybit scan downloads/ --json
      everybit scan model.bin --fail-on error
    """
    from everybit.api.scan import scan
    from everybit.cli.progress import counting

    with counting(output, "scanning", paths) as progress:
        verdict = scan(*paths, progress=progress)
    return output.verdict(verdict)
