"""`everybit convert SRC --out DST`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everybit.cli.options import GivenPath, config_options

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.cli.output import Output
    from everybit.core.config import Config


@click.command("convert")
@click.argument("source", type=GivenPath(), metavar="SRC")
@click.option(
    "--out",
    required=True,
    type=GivenPath(),
    metavar="DST",
    help="The new safetensors file where it ends in .safetensors, else a new folder. It may not"
    " exist.",
)
@click.option(
    "--max-shard-size",
    metavar="SIZE",
    help="Write files of at most SIZE (5GB, 512MiB) and an index beside them.",
)
@config_options("convert")
def command(
    source: Path, out: Path, max_shard_size: str | None, config: Config, output: Output
) -> int:
    """Turn a pickled checkpoint into safetensors and JSON; none of its code runs.

    SRC is a file of torch.save of any age, an index or folder of shards, a DCP folder, or a folder
    of such files. Tensors become safetensors; all else (structure, hyper-parameters, optimizer and
    scheduler state, counters) stands in NAME.state.json. What is no plain value becomes an inert
    record. Every byte is read back from the disk and held against SRC; everybit.restore(DST) gives
    the object back.

    A source that is damaged, or that would run code when loaded, is refused with exit code 2 and
    the rule; nothing is left behind.

    \b
    Examples:
      everybit convert model.pt --out model.safetensors
      everybit convert lightning.ckpt --out converted/ --max-shard-size 5GB
      everybit convert checkpoints/dcp_1000 --out step_1000
    """
    from everybit.api.convert import convert
    from everybit.cli.progress import reading

    with reading(output, "converting", [source]) as progress:
        verdict = convert(source, out, max_shard_size=max_shard_size, progress=progress)
    code = output.verdict(verdict)
    output.note(f"converted to {out}; everybit.restore({str(out)!r}) gives it back")
    return code
