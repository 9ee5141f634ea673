"""`everybit extract PATH --out FILE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everybit.cli.options import GivenPath, config_options

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.cli.output import Output
    from everybit.core.config import Config


@click.command("extract")
@click.argument("path", type=GivenPath(), metavar="PATH")
@click.option(
    "--out",
    required=True,
    type=GivenPath(),
    metavar="FILE",
    help="The new safetensors file. Neither it nor FILE.lost.json may exist.",
)
@config_options("extract")
def command(path: Path, out: Path, config: Config, output: Output) -> int:
    """Save what is whole of a damaged model file or folder.

    The tensors are written as safetensors. One is whole where its seal says so, else where its
    archive's checksum holds, else where nothing speaks against it. What was left out, and why, is
    listed in FILE.lost.json. PATH is only read, and nothing in it is executed; `everybit repair`
    puts bytes back in place instead.

    Exit code 1 where something was lost or is damaged, 3 where nothing vouches for some of what was
    saved.

    \b
    Examples:
      everybit extract cut.pt --out whole.safetensors
      everybit extract checkpoints/step_1000 --out whole.safetensors
    """
    from everybit.api.extract import extract
    from everybit.cli.progress import reading

    with reading(output, "saving", [path]) as progress:
        verdict = extract(path, out, progress=progress)
    code = output.verdict(verdict)
    output.note(f"saved to {out}; what was lost is listed in {out}.lost.json")
    return code
