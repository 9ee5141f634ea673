"""One file of a target, with or without its seal: present, readable, whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.checks.unsealed import check_unsealed
from everybit.files.damage import MalformedError
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress
from everybit.files.seals.manifest import MANIFEST_NAME, SealedFile
from everybit.files.seals.sealed import check_sealed
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Thoroughness:
    """How files are checked.

    Attributes:
        full: Read every byte; else sizes and structure only.
        strong: Compare BLAKE3 as well.
        progress: Is told the bytes read, as they are.
    """

    full: bool = True
    strong: bool = False
    progress: Callable[[int], None] = no_progress


def check_file(path: Path, entry: SealedFile | None, name: str, how: Thoroughness) -> Outcome:
    """Check one file.

    Args:
        path: Where it should be.
        entry: Its seal; None without.
        name: Its path relative to the target, for findings.
        how: How thoroughly.

    Raises:
        PathError: It cannot be read.
    """
    if entry is None:
        return _check_unsealed(path, name, how)
    if not path.is_file():
        gone = missing(name, listed_by=MANIFEST_NAME, expected_bytes=entry.size_bytes)
        return Outcome(findings=[gone], checked={"files against their seal": 1})
    with ByteSource(path) as source:
        if how.full:
            try:
                return check_sealed(source, entry, name, strong=how.strong, progress=how.progress)
            except MalformedError as error:
                return Outcome(findings=[error.damage.finding(MANIFEST_NAME)])
        outcome = check_unsealed(source, name, full=False)
        # The bytes can be held against the seal; that this was not asked for is no gap.
        outcome.skipped = [replace(item, promised=False) for item in outcome.skipped]
        if source.size != entry.size_bytes and not outcome.findings:
            whole = bool(outcome.checked)
            outcome.findings.append(_other_size(source.size, entry, name, whole=whole))
        outcome.count("file sizes against their seal")
        return outcome


def _check_unsealed(path: Path, name: str, how: Thoroughness) -> Outcome:
    with ByteSource(path) as source:
        outcome = check_unsealed(source, name, full=how.full, progress=how.progress)
        if source.changed():
            why = "it changed while it was read; verify again when nothing writes to it"
            return Outcome(skipped=[Skipped(what=name, why=why)], num_bytes=outcome.num_bytes)
    if how.strong:
        why = "it is not sealed"
        outcome.skipped.append(Skipped(what=f"{name}: comparison of BLAKE3 digests", why=why))
    return outcome


def missing(name: str, *, listed_by: str, **evidence: int) -> Finding:
    """Return the finding for a file that something lists and that is not there."""
    return rule("FIL103").finding(
        f"{name} is listed by {listed_by} and is not there",
        where=Location(path=name),
        evidence={"listed_by": listed_by, **evidence},
    )


def not_listed(path: Path, name: str) -> Finding:
    """Return the finding for a model beside sealed files that the manifest does not list."""
    return rule("FIL109").finding(
        f"{name} lies beside sealed files and is not in the manifest",
        where=Location(path=name),
        evidence={"size_bytes": path.stat().st_size},
    )


def _other_size(size: int, entry: SealedFile, name: str, *, whole: bool) -> Finding:
    """Tell of a size; a file that is whole by its own format was not cut."""
    low, high = sorted((size, entry.size_bytes))
    return rule("FIL104" if size < entry.size_bytes and not whole else "FIL101").finding(
        f"{name} has {size} bytes, sealed with {entry.size_bytes}",
        where=Location(path=name, byte_range=(low, high)),
        evidence={
            "size_bytes": size,
            "expected_bytes": entry.size_bytes,
            "promised_by": "the manifest",
        },
    )
