"""A digest that somebody other than a manifest expects of a file, and the test of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.files.aside import new_hasher, read_hashed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding
    from everybit.files.aside import Hasher
    from everybit.files.source import ByteSource

_OURS: Final = ("blake3", "git-sha1")


class Witness(StrEnum):
    """Who expects a digest."""

    REQUEST = "the digest that was asked for"
    LIST = "a list of SHA-256 digests"
    CACHE = "its name in a cache"
    BUNDLE = "a model-signing bundle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A digest that a file, or a part of it, is expected to have.

    Attributes:
        algorithm: A name that `hashlib` knows, `blake3` or `git-sha1`.
        hex: The digest in lower-case hexadecimal.
        listed_by: The file that says so, or what else does.
        witness: Its kind.
        start: First byte of the part.
        end: Last byte, excluded; None for a whole file.
    """

    algorithm: str
    hex: str
    listed_by: str
    witness: Witness
    start: int = 0
    end: int | None = None

    @property
    def known(self) -> bool:
        """Whether this machine can compute the digest."""
        return self.algorithm in _OURS or (
            self.algorithm in hashlib.algorithms_available
            and not self.algorithm.startswith("shake")
        )


class PartHasher:
    """Digests of parts that follow each other, over data that arrives in pieces."""

    def __init__(self, parts: Sequence[Expected]) -> None:
        self._parts = parts
        self._index = 0
        self._position = 0
        self._hasher = new_hasher(parts[0].algorithm)
        self.digests: list[str] = []

    def update(self, data: Any, /) -> None:
        """Add the next bytes; those behind the last part are left out."""
        view = memoryview(data)
        while view and self._index < len(self._parts):
            end = self._parts[self._index].end or 0
            piece = view[: end - self._position]
            self._hasher.update(piece)
            self._position += len(piece)
            view = view[len(piece) :]
            if self._position == end:
                self._close()

    def _close(self) -> None:
        self.digests.append(self._hasher.hexdigest())
        self._index += 1
        if self._index < len(self._parts):
            self._hasher = new_hasher(self._parts[self._index].algorithm)

    def hexdigest(self) -> str:
        """Return all digests, one after the other; that of a part cut short included."""
        if self._index < len(self._parts):
            self._close()
        return "".join(self.digests)


def check_expected(
    source: ByteSource,
    wanted: Sequence[Expected],
    name: str,
    progress: Callable[[int], None],
) -> list[Finding]:
    """Read a file once and return a finding for each witness whose digests it does not have.

    Args:
        source: The file.
        wanted: Digests of known algorithms.
        name: Its path relative to the target.
        progress: Is told the bytes read, as they are.

    Raises:
        PathError: It cannot be read.
    """
    whole = [item for item in wanted if item.end is None]
    by_list: dict[str, list[Expected]] = {}
    for item in wanted:
        if item.end is not None:
            by_list.setdefault(item.listed_by, []).append(item)
    hashers: dict[str, Hasher] = {
        algorithm: new_hasher(algorithm, size_bytes=source.size)
        for algorithm in {item.algorithm for item in whole}
    }
    parts = {listed_by: PartHasher(items) for listed_by, items in by_list.items()}
    for chunk in read_hashed(source, [*hashers.values(), *parts.values()]):
        progress(len(chunk))
    found = {algorithm: hasher.hexdigest() for algorithm, hasher in hashers.items()}
    findings = []
    told: set[str] = set()
    for item in whole:
        # Two lists that expect the same of a file are one damage.
        if found[item.algorithm] != item.hex and item.hex not in told:
            told.add(item.hex)
            place = ((0, source.size),) if source.size else ()
            findings.append(_other(name, item, found[item.algorithm], place))
    for listed_by, hasher in parts.items():
        hasher.hexdigest()
        items = by_list[listed_by]
        wrong = [
            item for item, digest in zip(items, hasher.digests, strict=False) if digest != item.hex
        ]
        end = items[-1].end or 0
        if wrong or len(hasher.digests) < len(items) or source.size != end:
            first = wrong[0] if wrong else items[-1]
            digest = hasher.digests[items.index(first)] if wrong else ""
            places = [(item.start, item.end or 0) for item in wrong]
            if not wrong:
                places = [(min(source.size, end), max(source.size, end))]
            finding = _other(name, first, digest, tuple(places[:1000]))
            evidence = {"size_bytes": source.size, "expected_bytes": end}
            findings.append(_with(finding, evidence))
    return findings


def _other(name: str, item: Expected, found: str, places: tuple[tuple[int, int], ...]) -> Finding:
    place: dict[str, Any] = {}
    if len(places) == 1:
        place["byte_range"] = places[0]
    elif places:
        place["byte_ranges"] = places
    evidence = {
        "expected": f"{item.algorithm}:{item.hex}",
        "expected_by": item.listed_by,
        "witness": str(item.witness),
    }
    if found:
        evidence["found"] = f"{item.algorithm}:{found}"
    return rule("FIL101").finding(
        f"{name} does not have the {item.algorithm} digest that {item.listed_by} gives",
        where=Location(path=name, **place),
        evidence=evidence,
        remedy="Fetch the file again from its source, and verify again.",
    )


def _with(finding: Finding, evidence: dict[str, Any]) -> Finding:
    return replace(finding, evidence={**finding.evidence, **evidence})
