"""Model-signing bundles, built as release 1.1 of the package `model-signing` writes them."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING

import blake3
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

if TYPE_CHECKING:
    from pathlib import Path

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def digest(algorithm: str, data: bytes) -> str:
    if algorithm == "blake3":
        return blake3.blake3(data).hexdigest()
    return hashlib.new(algorithm, data).hexdigest()


def resources(folder: Path, algorithm: str, shard_size: int | None) -> list[dict]:
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name == "model.sig":
            continue
        data, name = path.read_bytes(), path.relative_to(folder).as_posix()
        if shard_size is None:
            found.append({"name": name, "algorithm": algorithm, "digest": digest(algorithm, data)})
            continue
        for start in range(0, len(data), shard_size):
            piece = data[start : start + shard_size]
            found.append(
                {
                    "name": f"{name}:{start}:{start + len(piece)}",
                    "algorithm": f"{algorithm}-sharded-{shard_size}",
                    "digest": digest(algorithm, piece),
                }
            )
    return found


def statement(listed: list[dict], algorithm: str, shard_size: int | None) -> dict:
    root = hashlib.sha256(b"".join(bytes.fromhex(item["digest"]) for item in listed))
    serialization = {
        "method": "files" if shard_size is None else "shards",
        "ignore_paths": [".gitattributes", ".gitignore", ".github", ".git"],
        "hash_type": algorithm,
        "allow_symlinks": False,
    }
    if shard_size is not None:
        serialization["shard_size"] = float(shard_size)
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "m", "digest": {"sha256": root.hexdigest()}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {"serialization": serialization, "resources": listed},
    }


def envelope(document: dict, key: ec.EllipticCurvePrivateKey, material: dict | None = None) -> dict:
    payload = json.dumps(document, indent=2).encode()
    head = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode()
    signature = key.sign(head + payload, ec.ECDSA(hashes.SHA256()))
    hint = hashlib.sha256(public_pem(key)).hexdigest()
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            **(material if material is not None else {"publicKey": {"hint": hint}}),
            "tlogEntries": [],
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }


def public_pem(key) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def sign_folder(
    folder: Path,
    key: ec.EllipticCurvePrivateKey,
    *,
    algorithm: str = "sha256",
    shard_size: int | None = None,
    material: dict | None = None,
) -> Path:
    listed = resources(folder, algorithm, shard_size)
    document = statement(listed, algorithm, shard_size)
    place = folder / "model.sig"
    place.write_text(json.dumps(envelope(document, key, material)))
    return place
