"""A trust policy: whose files, from where, under which licence. `docs/trust.md` describes it."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import PathError, UsageError
from everybit.files.signatures.keys import KeyKind, PublicKey, load_public_key
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

_KEYS: Final = ("sources", "licenses", "digests", "publishers")
_PUBLISHER_KEYS: Final = ("name", "key")
_DIGEST: Final = re.compile(r"(sha256|blake3):[0-9a-f]{64}")
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Somebody whose signature is believed.

    Attributes:
        name: What people call them.
        key: Their Ed25519 key.
    """

    name: str
    key: PublicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a file needs to be trusted.

    Attributes:
        path: The policy's file.
        sources: Patterns one of which a file's recorded source has to match (`*` stands for any
            characters); None where any source does.
        licenses: SPDX identifiers one of which has to be recorded; None where any or none does.
        digests: Files that are trusted by their bytes, whatever else is known of them:
            `sha256:` or `blake3:` and hexadecimal digits.
        publishers: Those who may have signed; empty where nobody has to.
    """

    path: Path
    sources: tuple[str, ...] | None = None
    licenses: tuple[str, ...] | None = None
    digests: frozenset[str] = frozenset()
    publishers: tuple[Publisher, ...] = ()


def load_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        PathError: It, or a publisher's key, cannot be read.
        UsageError: It is not TOML, has an unknown key, or a value that cannot be right.
    """
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            raise PathError("is too large to be a trust policy", where=str(path), todo="check it")
        data = source.read(0, source.size)
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"not valid TOML ({error})", where=str(path)) from None
    _check_keys(document, _KEYS, path)
    digests = _texts(document, "digests", path) or ()
    for text in digests:
        if not _DIGEST.fullmatch(text):
            raise UsageError(
                f"digests: {text[:90]!r} is none",
                where=str(path),
                todo="write sha256: or blake3: and 64 hexadecimal digits in lower case",
            )
    return Policy(
        path=path,
        sources=_texts(document, "sources", path),
        licenses=_texts(document, "licenses", path),
        digests=frozenset(digests),
        publishers=tuple(_publishers(document, path)),
    )


def _check_keys(table: dict[str, Any], known: tuple[str, ...], path: Path) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            advice = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"unknown key {key[:80]!r}", where=str(path), todo=advice)


def _texts(table: dict[str, Any], key: str, path: Path) -> tuple[str, ...] | None:
    if key not in table:
        return None
    values = table[key]
    if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
        raise UsageError(f"{key} is not a list of texts", where=str(path))
    return tuple(values)


def _publishers(document: dict[str, Any], path: Path) -> list[Publisher]:
    tables = document.get("publishers", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(
            "publishers is no list of tables",
            where=str(path),
            todo='write [[publishers]], then name = "..." and key = "publisher.pub"',
        )
    found = []
    for table in tables:
        _check_keys(table, _PUBLISHER_KEYS, path)
        if not all(isinstance(table.get(key), str) and table[key] for key in _PUBLISHER_KEYS):
            raise UsageError(
                "a publisher has no name or no key",
                where=str(path),
                todo='write name = "..." and key = "publisher.pub"',
            )
        key = load_public_key(path.parent / table["key"])
        if key.kind is not KeyKind.ED25519:
            raise UsageError(
                f"the key of {table['name'][:80]} is no Ed25519 key",
                where=str(path),
                todo="manifests are signed with Ed25519; a signing bundle is checked by --key",
            )
        found.append(Publisher(name=table["name"], key=key))
    return found
