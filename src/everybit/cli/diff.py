"""`everybit diff A B`."""

from __future__ import annotations

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
@config_options("diff")
def command(a: Path, b: Path, config: Config, output: Output) -> int:
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

    # A walk over two runs ends where they part: no total is known before.
    files = () if (a / "run.json").exists() else (a, b)
    with reading(output, "comparing", files) as progress:
        verdict = diff(a, b, progress=progress)
    return output.verdict(verdict)
