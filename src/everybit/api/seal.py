"""`seal`: remember what files hold, in a manifest beside them."""

from __future__ import annotations

import datetime
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from everybit._version import __version__
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.files.passes import no_progress
from everybit.files.seals.gathering import Gathered, gather
from everybit.files.seals.manifest import MANIFEST_NAME, SIGNATURE_NAME, write_manifest
from everybit.files.trust.origin import make_origin

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from everybit.files.parity.layout import Code
    from everybit.files.signatures.keys import PrivateKey


def seal(
    *paths: str | os.PathLike[str],
    sha256: bool = False,
    sign: str | os.PathLike[str] | None = None,
    parity: float | str | None = None,
    parity_code: str | None = None,
    source: str | None = None,
    license: str | None = None,  # noqa: A002 - the flag's name, and the field's word
    progress: Callable[[int], None] = no_progress,
) -> list[Path]:
    """Seal files and folders: write `MANIFEST.everybit.json` beside what they hold.

    A folder gets a manifest of all its files. A single file goes into the manifest of its own
    folder, beside the entries of other files that are there already. Everything is read before
    anything is written; each manifest is replaced whole or not at all, and last.

    Args:
        paths: Files and folders.
        sha256: Record SHA-256 as well, and write `SHA256SUMS` for other tools. A folder that was
            sealed so before keeps it.
        sign: An Ed25519 private key (PEM or OpenSSH) to sign each manifest with. The password of
            an encrypted one is taken from the variable `EVERYBIT_KEY_PASSWORD`.
        parity: Also write parity of this share of the data (0.05, or "5%"), from which
            `everybit.repair` restores what is lost.
        parity_code: `xor` or `rs` (Reed-Solomon, extra `parity`); XOR up to 100 % where None.
        source: Where the files come from (a web address, a repository and revision, a run), for
            `verify(trust=...)`. Kept when the same bytes are sealed again.
        license: SPDX identifier of their licence (`Apache-2.0`), kept likewise.
        progress: Is told the bytes read, as they are.

    Returns:
        The manifests written, in the order of the paths, each once.

    Raises:
        UsageError: The key or the parity cannot be had, or the origin is no line of text.
        PathError: Something cannot be read or written, changes while it is read, or a folder
            holds no file.
        DamagedError: A file is damaged, or a manifest that is to be kept is; names the rule.
            Nothing is written then.
    """
    return seal_verdict(
        *paths,
        sha256=sha256,
        sign=sign,
        parity=parity,
        parity_code=parity_code,
        source=source,
        license=license,
        progress=progress,
    )[1]


def seal_verdict(
    *paths: str | os.PathLike[str],
    sha256: bool = False,
    sign: str | os.PathLike[str] | None = None,
    parity: float | str | None = None,
    parity_code: str | None = None,
    source: str | None = None,
    license: str | None = None,  # noqa: A002 - the flag's name, and the field's word
    progress: Callable[[int], None] = no_progress,
) -> tuple[Verdict, list[Path]]:
    """Seal, and also return what was covered, as the verdict that the command line prints."""
    began = time.perf_counter()
    key = _key(sign)
    share = _share(parity)
    code = _code(parity_code, share)
    origin = make_origin(source, license)
    gathered = gather(paths, sha256=sha256, origin=origin, progress=progress)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    written, guarantees = [], []
    skipped = []
    for folder, found in gathered.items():
        signed = (folder / SIGNATURE_NAME).is_file()
        guarantees += _write(folder, found, now, share, code, key, progress)
        written.append(folder / MANIFEST_NAME)
        if signed and key is None:
            why = "it signed the manifest that was there before; sign again with --sign"
            what = f"{folder / SIGNATURE_NAME}: removed"
            skipped.append(Skipped(what=what, why=why, promised=False))
    sealed = {
        (folder, name): file for folder, e in gathered.items() for name, file in e.sealed.items()
    }
    tensors = [tensor for file in sealed.values() for tensor in file.tensors]
    checked = [Checked(what="files sealed", count=len(sealed))]
    if tensors:
        checked.append(Checked(what="tensors sealed", count=len(tensors)))
    if key is not None:
        checked.append(Checked(what="manifests signed", count=len(written)))
    skipped += [
        Skipped(
            what=f"{name}: digest of tensor {tensor.name}",
            why=tensor.unreadable or "it repeats its storage too often; the file's digest holds it",
            promised=False,
        )
        for (_, name), file in sealed.items()
        for tensor in file.tensors
        if tensor.tree is None
    ]
    verdict = Verdict(
        command="seal",
        target=tuple(str(path) for path in paths),
        coverage=Coverage(checked=tuple(checked), skipped=tuple(skipped)),
        stats={
            "bytes": sum(file.size_bytes for file in sealed.values()),
            "seconds": time.perf_counter() - began,
            **({"parity": {"guarantee": "; ".join(guarantees)}} if guarantees else {}),
        },
    )
    return verdict, written


def _write(
    folder: Path,
    found: Gathered,
    now: str,
    share: float | None,
    code: Code | None,
    key: PrivateKey | None,
    progress: Callable[[int], None],
) -> list[str]:
    """Write all that belongs to one folder's seal, the manifest last; return what parity gives."""
    manifest = found.manifest(sealed_at=now, sealed_by=f"everybit {__version__}")
    digests = {
        name: entry.sha256.hex for name, entry in manifest.files.items() if entry.sha256 is not None
    }
    if digests:
        from everybit.files.signatures.sums import write_sums

        write_sums(folder, digests)
    guarantees = []
    if share is not None:
        from everybit.files.parity.writing import write_parity

        record = write_parity(folder, manifest, redundancy=share, code=code, progress=progress)
        manifest = replace(manifest, parity=record.encode())
        guarantees.append(record.guarantee())
    write_manifest(folder, manifest)
    if key is not None:
        from everybit.files.signatures.manifest_signature import sign_manifest

        sign_manifest(folder, key)
    return guarantees


def _key(sign: str | os.PathLike[str] | None) -> PrivateKey | None:
    """Read the key before anything else, so that a bad one costs no reading."""
    if sign is None:
        return None
    from everybit.files.signatures.keys import load_private_key

    return load_private_key(Path(sign))


def _share(parity: float | str | None) -> float | None:
    if parity is None:
        return None
    from everybit.files.parity.layout import parse_redundancy

    return parse_redundancy(parity)


def _code(parity_code: str | None, share: float | None) -> Code | None:
    if parity_code is None:
        return None
    from everybit.core.errors import UsageError
    from everybit.files.parity.layout import Code

    if share is None:
        raise UsageError("a parity code without parity", todo="say how much: --parity 10%")
    if parity_code not in list(Code):
        raise UsageError(f"no parity code {parity_code!r}", todo=f"choose {' or '.join(Code)}")
    return Code(parity_code)
