"""`everybit seal PATH...`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from everybit.cli.options import GivenPath, config_options

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.cli.output import Output
    from everybit.core.config import Config


@click.command("seal")
@click.argument("paths", nargs=-1, required=True, type=GivenPath(), metavar="PATH...")
@click.option(
    "--parity",
    metavar="SHARE",
    help="Also write parity of this share of the data (5%), for `everybit repair`.",
)
@click.option(
    "--parity-code",
    type=click.Choice(["xor", "rs"]),
    help="XOR, or Reed-Solomon that bears several losses a stripe.  [default: xor up to 100%]",
)
@click.option("--sha256", is_flag=True, help="Record SHA-256 too, and write SHA256SUMS.")
@click.option(
    "--sign",
    type=GivenPath(),
    metavar="KEY",
    help="Ed25519 private key to sign the manifest with; password in EVERYBIT_KEY_PASSWORD.",
)
@click.option(
    "--source",
    metavar="TEXT",
    help="Record where the files come from: an address, a repository and revision, a run.",
)
@click.option("--license", metavar="SPDX", help="Record their licence: Apache-2.0.")
@config_options("seal")
def command(
    paths: tuple[Path, ...],
    parity: str | None,
    parity_code: str | None,
    sha256: bool,
    sign: Path | None,
    source: str | None,
    license: str | None,  # noqa: A002 - click names it after the flag
    config: Config,
    output: Output,
) -> int:
    """Remember the bytes of model files in a manifest.

    Writes MANIFEST.everybit.json beside the files: for each file its size and digests, and for
    each tensor its name, dtype, shape, place and digest. `everybit verify` then tells at any time
    whether they still hold the same bytes, and where they do not. A damaged file is refused.

    Give a folder to seal all its files, or single files to seal them among others.

    \b
    Examples:
      everybit seal checkpoints/step_1000
      everybit seal model.safetensors
      everybit seal release/ --parity 5% --sha256 --sign key.pem
      everybit seal llama/ --source https://huggingface.co/org/llama@9f86d08 --license MIT
    """
    from everybit.api.seal import seal_verdict
    from everybit.cli.progress import reading

    with reading(output, "sealing", paths if parity is None else (*paths, *paths)) as progress:
        verdict, manifests = seal_verdict(
            *paths,
            sha256=sha256,
            sign=sign,
            parity=parity,
            parity_code=parity_code,
            source=source,
            license=license,
            progress=progress,
        )
    code = output.verdict(verdict)
    for manifest in manifests:
        output.note(f"manifest written to {manifest}")
    if "parity" in verdict.stats:
        output.note(f"parity: {verdict.stats['parity']['guarantee']}")
    return code
