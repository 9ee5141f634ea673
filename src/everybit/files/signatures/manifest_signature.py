"""The signature of a manifest: `MANIFEST.everybit.sig` beside it. `docs/manifest.md` describes it.

Signed is a domain prefix followed by the manifest file's exact bytes, so that a signature of a
manifest can be taken for a signature of nothing else.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from everybit.core.atomic import write_atomically
from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.seals.manifest import (
    MANIFEST_NAME,
    SIGNATURE_NAME,
    Manifest,
    decode_manifest,
    read_manifest_bytes,
)
from everybit.files.signatures.keys import KeyKind
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.outcome import Outcome
    from everybit.files.signatures.keys import PrivateKey, PublicKey

SCHEMA: Final = "everybit.signature/1"
PREFIX: Final = b"everybit.signature/1\0"
_MAX_BYTES: Final = 64 * 1024


def sign_manifest(folder: Path, key: PrivateKey) -> Path:
    """Sign a folder's manifest as it lies there; the signature appears whole or not at all.

    Raises:
        PathError: The manifest cannot be read or the signature not be written.
    """
    data = read_manifest_bytes(folder) or b""
    document = {
        "schema": SCHEMA,
        "algorithm": str(key.public.kind),
        "key_id": key.public.id,
        "signature": base64.b64encode(key.sign(PREFIX + data)).decode("ascii"),
    }
    place = folder / SIGNATURE_NAME
    write_atomically(place, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    return place


def load_checked(
    folder: Path, prefix: str, key: PublicKey | None, outcome: Outcome
) -> Manifest | None:
    """Read a folder's manifest; with an Ed25519 key only one that the key's owner signed.

    The bytes that were signed are the bytes that are read: the file is opened once.

    Args:
        folder: The folder.
        prefix: Its path relative to the target, empty or ending in a slash.
        key: Demands its signature; None leaves a signature unchecked, and says so. A key of
            another kind belongs to signing bundles.
        outcome: Takes what is found.

    Returns:
        The manifest; None where there is none, or it is not signed as demanded.

    Raises:
        PathError: It cannot be opened, or a newer release wrote it.
        MalformedError: It does not hold (FIL110).
    """
    data = read_manifest_bytes(folder)
    if data is None:
        return None
    place = folder / SIGNATURE_NAME
    if key is None or key.kind is not KeyKind.ED25519:
        if place.is_file():
            why = "no Ed25519 key was given; `--key` demands the signature"
            outcome.skipped.append(Skipped(what=prefix + SIGNATURE_NAME, why=why, promised=False))
        return decode_manifest(data)
    problem, evidence = _problem(place, key, data)
    if problem:
        outcome.findings.append(_unsigned(prefix, problem, {"key_id": key.id, **evidence}))
        why = "the manifest is not signed with the key that was given"
        what = f"{prefix}{MANIFEST_NAME}: comparison with the seals"
        outcome.skipped.append(Skipped(what=what, why=why))
        return None
    outcome.count("signatures of manifests")
    return decode_manifest(data)


def signer_of(folder: Path, keys: Sequence[PublicKey], data: bytes) -> PublicKey | None:
    """Return which of some keys signed a folder's manifest, given the manifest's bytes.

    Raises:
        PathError: The signature cannot be read.
    """
    place = folder / SIGNATURE_NAME
    return next((key for key in keys if not _problem(place, key, data)[0]), None)


def no_signature(name: str, key: PublicKey) -> Finding:
    """Return the finding for a target in which nothing is signed although a key was given."""
    return rule("FIL110").finding(
        f"{name} has no signed manifest and no signing bundle, and a key was given",
        where=Location(path=name),
        evidence={"key_id": key.id, "key": str(key.kind)},
        remedy="Ask whoever made the files to sign them, or verify without a key.",
    )


def _unsigned(prefix: str, problem: str, evidence: dict[str, str]) -> Finding:
    return rule("FIL110").finding(
        f"{prefix}{MANIFEST_NAME}: {problem}",
        where=Location(path=prefix + SIGNATURE_NAME),
        evidence=evidence,
        remedy="Fetch the manifest and its signature again from whoever signed them; until then "
        "nothing here is known to be theirs.",
    )


def _problem(place: Path, key: PublicKey, data: bytes) -> tuple[str, dict[str, str]]:
    """Return what is wrong with a signature, or ""; and the facts."""
    if not place.is_file():
        return "it is not signed, and a key was given", {}
    with ByteSource(place) as source:
        raw = source.read(0, _MAX_BYTES)
    try:
        document: Any = json.loads(raw)
        schema, algorithm = str(document["schema"]), str(document["algorithm"])
        signed_by = str(document["key_id"])[:128]
        signature = base64.b64decode(document["signature"], validate=True)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "its signature cannot be read", {"first_bytes": raw[:64].decode("ascii", "replace")}
    if (schema, algorithm) != (SCHEMA, str(key.kind)):
        return "its signature is of another kind", {"schema": schema[:64], "key": algorithm[:64]}
    if key.verifies(signature, PREFIX + data):
        return "", {}
    evidence = {"signed_by": signed_by}
    if signed_by != key.id:
        return "it is signed with another key than the one that was given", evidence
    return "its signature does not hold: the manifest or the signature was changed", evidence
