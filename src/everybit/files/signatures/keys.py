"""Keys from files: Ed25519 to sign and verify manifests, ECDSA to verify signing bundles."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import PathError, UsageError
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

#: Holds the password of an encrypted private key.
PASSWORD_VARIABLE: Final = "EVERYBIT_KEY_PASSWORD"

_MAX_BYTES: Final = 1 << 20
_OPENSSH: Final = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_MAKE_ONE: Final = "make one: openssl genpkey -algorithm ed25519 -out key.pem"


class KeyKind(StrEnum):
    """What a key signs with."""

    ED25519 = "ed25519"
    ECDSA = "ecdsa"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A key that signatures are checked with.

    Attributes:
        kind: Its algorithm.
        id: SHA-256 of the key as DER (SubjectPublicKeyInfo), in hexadecimal.
        pem: The key as PEM.
    """

    kind: KeyKind
    id: str
    pem: bytes

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key's other half signed exactly this message."""
        _need_cryptography()
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization

        key: Any = serialization.load_pem_public_key(self.pem)
        try:
            if self.kind is KeyKind.ED25519:
                key.verify(signature, message)
            else:
                from cryptography.hazmat.primitives.asymmetric import ec

                key.verify(signature, message, ec.ECDSA(_hash_for(key)))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateKey:
    """A key that manifests are signed with."""

    public: PublicKey
    _key: Any

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of a message, 64 bytes."""
        signature: bytes = self._key.sign(message)
        return signature


def load_private_key(path: Path) -> PrivateKey:
    """Read an Ed25519 private key: PEM (PKCS 8) or OpenSSH's format.

    The password of an encrypted one is taken from the variable `EVERYBIT_KEY_PASSWORD`.

    Raises:
        UsageError: The package `cryptography` is not installed.
        PathError: It cannot be read, or is no such key, or the password is missing or wrong.
    """
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    data = _read(path)
    password = os.environ.get(PASSWORD_VARIABLE)
    secret = password.encode() if password else None
    load: Any = serialization.load_pem_private_key
    if data.lstrip().startswith(_OPENSSH):
        load = serialization.load_ssh_private_key
    try:
        try:
            key = load(data, secret)
        except TypeError:
            if secret is None:
                raise
            # A password for a key that has none is no fault of the key.
            key = load(data, None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise _unreadable(path, data, error, has_password=secret is not None) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise PathError("is no Ed25519 private key", where=str(path), todo=_MAKE_ONE)
    return PrivateKey(public=_public(key.public_key(), KeyKind.ED25519), _key=key)


def load_public_key(path: Path) -> PublicKey:
    """Read a public key: Ed25519, or ECDSA on a NIST curve; PEM or a line in OpenSSH's form.

    Raises:
        UsageError: The package `cryptography` is not installed.
        PathError: It cannot be read, or is no such key.
    """
    _need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    data = _read(path)
    if b"PRIVATE KEY" in data:
        raise PathError(
            "is a private key",
            where=str(path),
            todo="give its public half (openssl pkey -in KEY -pubout, or the .pub file) and keep "
            "the private one where it is",
        )
    try:
        key: Any
        if data.lstrip().startswith(b"-----BEGIN"):
            key = serialization.load_pem_public_key(data)
        else:
            key = serialization.load_ssh_public_key(data.strip())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise PathError(
            "is no public key that can be read",
            where=str(path),
            todo="give an Ed25519 or ECDSA key as PEM or as a line in OpenSSH's form",
        ) from None
    if isinstance(key, ed25519.Ed25519PublicKey):
        return _public(key, KeyKind.ED25519)
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return _public(key, KeyKind.ECDSA)
    raise PathError(
        "is neither an Ed25519 nor an ECDSA key",
        where=str(path),
        todo="manifests are signed with Ed25519, model-signing bundles with ECDSA",
    )


_CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")


def _hash_for(key: Any) -> Any:
    """Return the hash that goes with a curve, as model-signing chooses it."""
    from cryptography.hazmat.primitives import hashes

    by_size: dict[int, Any] = {256: hashes.SHA256, 384: hashes.SHA384, 521: hashes.SHA512}
    return by_size[key.curve.key_size]()


def _public(key: Any, kind: KeyKind) -> PublicKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(kind=kind, id=hashlib.sha256(der).hexdigest(), pem=pem)


def _read(path: Path) -> bytes:
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            raise PathError("is too large to be a key", where=str(path), todo="name a key file")
        return source.read(0, source.size)


def _unreadable(path: Path, data: bytes, error: Exception, *, has_password: bool) -> PathError:
    if "bcrypt" in str(error):
        return PathError(
            "is encrypted in OpenSSH's way, which needs the package bcrypt",
            where=str(path),
            todo="pip install bcrypt, or give the key as PEM",
        )
    if isinstance(error, TypeError) and not has_password:
        return PathError(
            "is encrypted", where=str(path), todo=f"put its password into {PASSWORD_VARIABLE}"
        )
    if has_password and b"PRIVATE KEY" in data:
        return PathError(
            f"cannot be read with the password in {PASSWORD_VARIABLE}",
            where=str(path),
            todo="check the password",
        )
    return PathError("is no private key that can be read", where=str(path), todo=_MAKE_ONE)


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError(
            "signatures need the package cryptography", todo="pip install 'everybit[sign]'"
        ) from None
