"""The manifest: what a folder's files held when they were sealed. `docs/manifest.md` describes it.

The file's first line holds a digest of everything after it, so that any flipped bit in it is
noticed:

    {
    "digest": "tree:<32 hexadecimal digits>",
    "schema": "everybit.manifest/1",
    ...

Reading back what was written gives the same values.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from everybit.core.atomic import write_atomically
from everybit.core.errors import PathError
from everybit.core.tree import LEAF_BYTES, tree_digest
from everybit.files.collection import paused_collection
from everybit.files.seals.entries import (
    CRC_BYTES,
    WRONG,
    SealedFile,
    TakenFrom,
    broken,
    decode_file,
    encode_file,
    wrong_field,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "CRC_BYTES",
    "MANIFEST_NAME",
    "OWN_NAMES",
    "SCHEMA",
    "SIGNATURE_NAME",
    "SUMS_NAME",
    "Covers",
    "Manifest",
    "SealedFile",
    "TakenFrom",
    "decode_manifest",
    "load_manifest",
    "read_manifest_bytes",
    "save_id_of",
    "write_manifest",
]

MANIFEST_NAME: Final = "MANIFEST.everybit.json"
SIGNATURE_NAME: Final = "MANIFEST.everybit.sig"
#: The list that `sha256sum -c` reads; `seal --sha256` writes it beside the manifest.
SUMS_NAME: Final = "SHA256SUMS"
#: What sealing writes beside files; none of it is sealed itself.
OWN_NAMES: Final = frozenset({MANIFEST_NAME, SIGNATURE_NAME, SUMS_NAME})
SCHEMA: Final = "everybit.manifest/1"

_HEAD: Final = b'{\n"digest": "tree:'
_HEX: Final = 32
_NECK: Final = b'",\n'
_MAX_BYTES: Final = 1 << 30
_MAX_TEXT: Final = 256


class Covers(StrEnum):
    """What was sealed: all files of the folder, so that another one is a finding, or some."""

    FOLDER = "folder"
    FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All sealed files of a folder, by path, and when and by what they were sealed.

    Attributes:
        files: Entries by path.
        covers: Whether the whole folder was sealed.
        sealed_at: UTC time in ISO 8601.
        sealed_by: Program and release.
        save_id: Which save the files are of. From files: a digest of all paths and digests, so
            that equal content has an equal id. From live tensors: what the saver chose.
        step: Updates that the saved state has seen; None where the files do not agree on one.
        counters: Step and epoch counters by name; those read from files as `path:dotted.key`.
        parity: The record of the parity files, in their own form.
    """

    files: dict[str, SealedFile]
    covers: Covers = Covers.FOLDER
    sealed_at: str = ""
    sealed_by: str = ""
    save_id: str = ""
    step: int | None = None
    counters: Mapping[str, int | float] = field(default_factory=dict)
    parity: Mapping[str, Any] | None = None

    def encode(self) -> bytes:
        """Return the manifest file's bytes."""
        head: dict[str, Any] = {
            "schema": SCHEMA,
            "sealed_by": self.sealed_by,
            "sealed_at": self.sealed_at,
            "leaf_bytes": LEAF_BYTES,
            "covers": str(self.covers),
            "save_id": self.save_id,
            "step": self.step,
            "counters": dict(self.counters),
        }
        if self.parity is not None:
            head["parity"] = dict(self.parity)
        files = ",\n".join(
            f"{json.dumps(path)}: {encode_file(self.files[path])}" for path in sorted(self.files)
        )
        lines = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}"
            for key, value in head.items()
        )
        body = f'{lines},\n"files": {{\n{files}\n}}\n}}\n'.encode("ascii")
        return _HEAD + _body_digest(body) + _NECK + body


def save_id_of(files: Mapping[str, SealedFile]) -> str:
    """Return the id of a save that is known by its files only: equal for equal content."""
    text = "".join(f"{path}\0{files[path].tree}\n" for path in sorted(files))
    listed = text.encode("utf-8", "surrogateescape")
    return tree_digest("bytes", (len(listed),), listed).hex


def _body_digest(body: bytes) -> bytes:
    return tree_digest("bytes", (len(body),), body).hex.encode("ascii")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a folder's manifest, whole or not at all; a signature of another one is removed.

    Raises:
        PathError: It cannot be written; what was there before is untouched.
    """
    write_atomically(folder / MANIFEST_NAME, manifest.encode())
    signature = folder / SIGNATURE_NAME
    try:
        signature.unlink(missing_ok=True)
    except OSError as error:
        raise PathError.from_os_error(
            error, signature, todo="remove it: it signs the manifest that was there before"
        ) from error


def load_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a folder; None where it has none.

    Raises:
        PathError: It cannot be opened, or a newer release wrote it.
        MalformedError: It does not hold (FIL110).
    """
    data = read_manifest_bytes(folder)
    return None if data is None else decode_manifest(data)


def read_manifest_bytes(folder: Path) -> bytes | None:
    """Return the bytes of a folder's manifest; None where it has none.

    Raises:
        PathError: It cannot be opened.
        MalformedError: It is too large to be one (FIL110).
    """
    path = folder / MANIFEST_NAME
    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise broken(f"it has {size} bytes; none is larger than {_MAX_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise PathError.from_os_error(error, path) from error


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest file's bytes.

    Raises:
        PathError: A newer release wrote it.
        MalformedError: It does not hold (FIL110).
    """
    start = len(_HEAD) + _HEX
    recorded = data[len(_HEAD) : start]
    body = data[start + len(_NECK) :]
    if not data.startswith(_HEAD) or data[start : start + len(_NECK)] != _NECK:
        raise broken("it does not start with its digest", expected="a line with its digest")
    computed = _body_digest(body)
    if recorded != computed:
        raise broken(
            "its content does not give the digest in its first line",
            expected=recorded.decode("ascii", "replace"),
            found=computed.decode("ascii"),
        )
    try:
        # The digest holds, so what follows guards against other releases and against malice.
        with paused_collection():
            document = json.loads(b"{" + body)
        if document["schema"] != SCHEMA:
            raise PathError(
                f"the manifest is of schema {str(document['schema'])[:40]!r}, which this release "
                "does not know",
                where=MANIFEST_NAME,
                todo="upgrade everybit, or seal the folder again",
            )
        return _decode(document)
    except WRONG as error:
        raise wrong_field(error) from None


def _decode(document: dict[str, Any]) -> Manifest:
    if document["leaf_bytes"] != LEAF_BYTES:
        raise ValueError("leaf_bytes")
    step, parity = document["step"], document.get("parity")
    if not (step is None or (type(step) is int and step >= 0)):
        raise ValueError("step")
    if not (parity is None or isinstance(parity, dict)):
        raise ValueError("parity")
    counters = document["counters"]
    if not all(
        type(v) is int or (type(v) is float and math.isfinite(v)) for v in counters.values()
    ):
        raise ValueError("counters")
    return Manifest(
        files={path: decode_file(path, entry) for path, entry in document["files"].items()},
        covers=Covers(document["covers"]),
        sealed_at=str(document["sealed_at"])[:_MAX_TEXT],
        sealed_by=str(document["sealed_by"])[:_MAX_TEXT],
        save_id=str(document["save_id"])[:_MAX_TEXT],
        step=step,
        counters=counters,
        parity=parity,
    )


def _is_finite(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))
