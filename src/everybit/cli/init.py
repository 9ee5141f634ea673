"""`everybit init repro DIR`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from everybit.cli.failure import tell
from everybit.cli.options import GivenPath

if TYPE_CHECKING:
    from pathlib import Path


@click.group("init")
def command() -> None:
    """Make a minimal project to investigate in.

    \b
    Example:
      everybit init repro looking/
    """


@command.command("repro")
@click.argument("folder", metavar="DIR", type=GivenPath())
def repro(folder: Path) -> int:
    """Make a small seeded training in DIR, recorded and sealed, to compare runs with.

    DIR has to be new or empty.

    \b
    Example:
      everybit init repro looking/
      cd looking && python scripts/train_debug.py
    """
    from everybit.api.init import init_repro

    files = init_repro(folder)
    program = shlex.quote(str(folder / "scripts" / "train_debug.py"))
    tell(f"{len(files)} files in {folder}; next: python {program}")
    return 0
