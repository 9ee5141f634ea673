"""`everybit verify PATH...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everybit.cli.options import GivenPath, config_options

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.cli.output import Output
    from everybit.core.config import Config


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, type=GivenPath(), metavar="PATH...")
@click.option(
    "--level",
    type=click.Choice(["structure", "full"]),
    default="full",
    show_default=True,
    help="Read every byte, or test sizes and structure only.",
)
@click.option("--strong", is_flag=True, help="Compare BLAKE3 too: no one can forge it.")
@click.option(
    "--values",
    is_flag=True,
    help="Judge the values of sealed files too: they may have been wrong before the seal.",
)
@click.option(
    "--key",
    type=GivenPath(),
    metavar="PUB",
    help="Public key that must have signed the manifest (Ed25519) or the bundle (ECDSA).",
)
@click.option(
    "--expect-sha256",
    metavar="H",
    help="SHA-256 that the one file named must have.",
)
@click.option(
    "--trust",
    type=GivenPath(),
    metavar="POLICY",
    help="Trust policy (TOML): publishers, sources, licences and digests that are allowed.",
)
@config_options("verify")
def command(
    paths: tuple[Path, ...],
    level: str,
    strong: bool,
    values: bool,
    key: Path | None,
    expect_sha256: str | None,
    trust: Path | None,
    config: Config,
    output: Output,
) -> int:
    """Test whether model files still hold the right bytes.

    A sealed file is held against its manifest: one read, and where it differs the tensor, the
    elements and the bits. Without a manifest all is tested that the format allows: structure, and
    the checksums that torch.save writes and torch.load ignores. Lists of SHA-256 digests and
    model-signing bundles beside the files are held against them. Nothing is loaded or executed.

    Exit code 3 where bytes had nothing to be held against: seal the files while they are good.

    \b
    Examples:
      everybit verify checkpoints/step_1000
      everybit verify model.pt --json
      everybit verify model.safetensors --level structure
      everybit verify release/ --key publisher.pub
      everybit verify models/ --trust trust.toml
      everybit verify model.gguf --expect-sha256 9f86d081884c7d65...
    """
    from everybit.api.verify import verify
    from everybit.cli.progress import reading

    with reading(output, "verifying", paths) as progress:
        verdict = verify(
            *paths,
            level="structure" if level == "structure" else "full",
            strong=strong,
            values=values,
            key=key,
            expect_sha256=expect_sha256,
            trust=trust,
            progress=progress,
        )
    return output.verdict(verdict)
