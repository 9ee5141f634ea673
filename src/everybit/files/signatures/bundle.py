"""OpenSSF model-signing bundles: `model.sig` beside a model, read without trusting it.

A bundle is Sigstore's JSON around a DSSE envelope, whose payload is an in-toto statement; its
predicate lists the model's files, or shards of them, with a digest each. Read here are predicate
`https://model_signing/signature/v1.0`, and the one that release 0.2 wrote.
https://github.com/sigstore/model-transparency describes the format.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from everybit.files.collection import paused_collection
from everybit.files.signatures.expected_digest import Expected, Witness
from everybit.files.signatures.keys import KeyKind
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.signatures.keys import PublicKey

#: Where model-signing puts a bundle unless it is told otherwise.
BUNDLE_NAME: Final = "model.sig"

_MAX_BYTES: Final = 128 * 1024 * 1024
_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://model_signing/signature/v1.0"
_PREDICATE_0_2: Final = "https://model_signing/Digests/v0.1"
_SHARDED: Final = re.compile(r"(.+)-sharded-\d+(?:\.0)?")
_NAMES: Final = {"blake2": "blake2b"}
_WRONG: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)


class Method(StrEnum):
    """How a bundle is signed."""

    KEY = "key"
    CERTIFICATE = "certificate"
    KEYLESS = "keyless"


class BundleError(ValueError):
    """A bundle cannot be what it says that it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What a bundle says.

    Attributes:
        method: How it is signed.
        resources: What it expects of files, by path relative to the model's folder.
        payload: The bytes that are signed, before DSSE's encoding.
        payload_type: Their type.
        signature: The signature.
        hint: Identifies the key; empty where the bundle does not say.
        ignored: Paths that were left out on purpose, the bundle itself among them.
    """

    method: Method
    resources: dict[str, tuple[Expected, ...]]
    payload: bytes
    payload_type: str
    signature: bytes
    hint: str
    ignored: tuple[str, ...] = (BUNDLE_NAME,)

    def signed_by(self, key: PublicKey) -> bool:
        """Return whether the bundle's signature is by this ECDSA key."""
        if key.kind is not KeyKind.ECDSA or self.method is not Method.KEY:
            return False
        kind = self.payload_type
        head = f"DSSEv1 {len(kind.encode())} {kind} {len(self.payload)} ".encode()
        if key.verifies(self.signature, head + self.payload):
            return True
        # Release 0.2 wrote the payload as Python shows it, and the mark in upper case.
        odd = f"DSSEV1 {len(kind)} {kind} {len(self.payload)} {self.payload!r}".encode()
        return key.verifies(self.signature, odd)


def read_bundle(path: Path, listed_by: str) -> Bundle | None:
    """Read a bundle; None for a file that is none.

    Args:
        path: The file.
        listed_by: What findings call it.

    Raises:
        PathError: It cannot be read.
        BundleError: It is a bundle and does not hold together.
    """
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            return None
        data = source.read(0, source.size)
    try:
        with paused_collection():
            document = json.loads(data)
        envelope, material = document["dsseEnvelope"], document["verificationMaterial"]
    except _WRONG:
        return None
    try:
        payload = base64.b64decode(envelope["payload"], validate=True)
        kind = str(envelope["payloadType"])
        signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
        if kind != _PAYLOAD_TYPE:
            raise BundleError(f"its payload is of type {kind[:80]!r}")
        with paused_collection():
            statement = json.loads(payload)
        return Bundle(
            method=_method(material),
            resources=_resources(statement, listed_by),
            payload=payload,
            payload_type=kind,
            signature=signature,
            ignored=(BUNDLE_NAME, *_ignored(statement)),
            hint=str((material.get("publicKey") or {}).get("hint") or ""),
        )
    except BundleError:
        raise
    except _WRONG as error:
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise BundleError(f"a field is missing or cannot be right ({reason})") from None


def _ignored(statement: dict[str, Any]) -> list[str]:
    serialization = (statement.get("predicate") or {}).get("serialization") or {}
    return [str(path).rstrip("/") for path in serialization.get("ignore_paths") or ()]


def _method(material: dict[str, Any]) -> Method:
    if "publicKey" in material:
        return Method.KEY
    # A chain is what model-signing's certificate method writes; Sigstore issues a single one.
    return Method.CERTIFICATE if "x509CertificateChain" in material else Method.KEYLESS


def _resources(statement: dict[str, Any], listed_by: str) -> dict[str, tuple[Expected, ...]]:
    if statement["_type"] != _STATEMENT:
        raise BundleError(f"its statement is of type {str(statement['_type'])[:80]!r}")
    predicate = statement["predicateType"]
    if predicate == _PREDICATE_0_2:
        listed = [(s["name"], "sha256", s["digest"]["sha256"]) for s in statement["subject"]]
        sharded = False
    elif predicate == _PREDICATE:
        inner = statement["predicate"]
        listed = [(r["name"], r["algorithm"], r["digest"]) for r in inner["resources"]]
        sharded = inner["serialization"]["method"] == "shards"
        (subject,) = statement["subject"]
        root = hashlib.sha256(b"".join(bytes.fromhex(digest) for _, _, digest in listed))
        if subject["digest"]["sha256"] != root.hexdigest():
            raise BundleError("the digests that it lists do not give its own")
    else:
        raise BundleError(f"its predicate is of type {str(predicate)[:80]!r}")
    found: dict[str, list[Expected]] = {}
    for name, algorithm, digest in listed:
        path, start, end = _shard(name) if sharded else (str(name), 0, None)
        bytes.fromhex(digest)
        found.setdefault(_inside(path), []).append(
            Expected(
                algorithm=_algorithm(str(algorithm)),
                hex=str(digest).lower(),
                listed_by=listed_by,
                witness=Witness.BUNDLE,
                start=start,
                end=end,
            )
        )
    return {path: _in_order(path, items) for path, items in found.items()}


def _algorithm(name: str) -> str:
    sharded = _SHARDED.fullmatch(name)
    plain = sharded[1] if sharded else name
    return _NAMES.get(plain, plain)


def _shard(name: str) -> tuple[str, int, int]:
    path, start, end = name.rsplit(":", 2)
    if not 0 <= int(start) < int(end) < 1 << 63:
        raise BundleError(f"shard {name[:80]!r} cannot be")
    return path, int(start), int(end)


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name or "\0" in name:
        raise BundleError(f"path {name[:80]!r} leads out of the folder")
    return path.as_posix()


def _in_order(path: str, items: list[Expected]) -> tuple[Expected, ...]:
    """Return a file's shards in order; they must follow each other from its first byte on."""
    items.sort(key=lambda item: item.start)
    if len(items) > 1 or items[0].end is not None:
        position = 0
        for item in items:
            if item.start != position or item.end is None:
                raise BundleError(f"the shards of {path[:80]!r} do not follow each other")
            position = item.end
    return tuple(items)
