"""`everybit repair PATH...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everybit.cli.options import GivenPath, config_options

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.cli.output import Output
    from everybit.core.config import Config


@click.command("repair")
@click.argument("paths", nargs=-1, required=True, type=GivenPath(), metavar="PATH...")
@click.option(
    "--from",
    "copies",
    multiple=True,
    type=GivenPath(),
    metavar="COPY",
    help="Another copy, file or folder; may be damaged elsewhere. Can be given again.",
)
@click.option("--write", is_flag=True, help="Carry it out; without, only tell what would be done.")
@click.option("--keep", is_flag=True, help="Keep each damaged original, as NAME.damaged.")
@click.option(
    "--accept-weak",
    is_flag=True,
    help="Put back a bit that only a checksum points at, too: larger damage can look like it.",
)
@config_options("repair")
def command(
    paths: tuple[Path, ...],
    copies: tuple[Path, ...],
    write: bool,
    keep: bool,
    accept_weak: bool,
    config: Config,
    output: Output,
) -> int:
    """Put the right bytes back, from parity, another copy or a checksum.

    From the best evidence there is: the manifest's digests, parity (`everybit seal --parity 5%`),
    another copy, or without any of them a torch archive's own checksums, where a second witness
    agrees. Nothing is written without --write. Then the repaired file is written beside the damaged
    one, proved, and put in its place.

    Exit code 0 where nothing is damaged or all was put back, 1 where damage is left.

    \b
    Examples:
      everybit repair checkpoints/step_1000
      everybit repair checkpoints/step_1000 --write
      everybit repair model.pt --from /backup/model.pt --write
    """
    from everybit.api.repair import repair
    from everybit.cli.progress import reading

    with reading(output, "reading", paths) as progress:
        verdict = repair(
            *paths,
            copy=copies or None,
            write=write,
            keep=keep,
            accept_weak=accept_weak,
            progress=progress,
        )
    return output.verdict(verdict)
