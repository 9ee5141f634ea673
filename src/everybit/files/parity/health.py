"""Whether a parity file still holds what it would have to give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xxhash

from everybit.core.errors import PathError
from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.damage import MalformedError
from everybit.files.parity.container import ENVELOPE, Index, read_index
from everybit.files.parity.record import PARITY_NAME
from everybit.files.passes import no_progress
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.outcome import Outcome
    from everybit.files.seals.manifest import Manifest

_MAX_LISTED = 16
_SEAL_AGAIN = "Seal the folder again with --parity while its files are whole."


def check_parity(
    folder: Path,
    prefix: str,
    manifest: Manifest,
    outcome: Outcome,
    *,
    full: bool = True,
    progress: Callable[[int], None] = no_progress,
) -> None:
    """Check the parity file that a manifest speaks of; a folder without one has nothing to check.

    Damaged parity damages no model, so its findings are warnings.

    Args:
        folder: The manifest's folder.
        prefix: Its path relative to the target, empty or ending in a slash.
        manifest: The manifest.
        outcome: Takes what is found.
        full: Read every block; else the index only.
        progress: Is told the bytes read, as they are.
    """
    if manifest.parity is None:
        return
    name = prefix + PARITY_NAME
    path = folder / PARITY_NAME
    if not path.is_file():
        outcome.findings.append(_missing(name, manifest))
        return
    try:
        with ByteSource(path) as source:
            _check(source, name, manifest, outcome, full=full, progress=progress)
    except MalformedError as error:
        found = error.damage.finding(name)
        outcome.findings.append(
            rule(found.rule).finding(
                found.message, where=found.where, severity=Severity.WARNING, remedy=_SEAL_AGAIN
            )
        )
    except PathError as error:
        why = f"it cannot be read: {error.what}"
        outcome.skipped.append(Skipped(what=name, why=why))


def _check(
    source: ByteSource,
    name: str,
    manifest: Manifest,
    outcome: Outcome,
    *,
    full: bool,
    progress: Callable[[int], None],
) -> None:
    index = read_index(source)
    stale = [
        path
        for path, entry in index.manifest.files.items()
        if path not in manifest.files or manifest.files[path].tree != entry.tree
    ]
    stale += [path for path in manifest.files if path not in index.manifest.files]
    if stale:
        outcome.findings.append(_stale(name, stale))
    if not full:
        outcome.count("parity files by their index")
        return
    bad = damaged_blocks(source, index, progress)
    outcome.num_bytes += source.size
    outcome.count("parity blocks", index.layout.num_blocks)
    # The zeros behind the first copy are read by nobody.
    if bad or index.whole_copies < 2 or source.size != expected_size(index):
        outcome.findings.append(_damaged(source, name, index, bad))


def expected_size(index: Index) -> int:
    """Return how many bytes the parity file should have."""
    return index.blocks_end + index.num_index_bytes + ENVELOPE.size


def damaged_blocks(
    source: ByteSource, index: Index, progress: Callable[[int], None] = no_progress
) -> list[int]:
    """Read all blocks and return the numbers of those that do not give their digest."""
    size = index.layout.block_bytes
    bad: list[int] = []
    count = max(1, (1 << 20) // size)
    buffer = memoryview(bytearray(count * size))
    for first in range(0, index.layout.num_blocks, count):
        wanted = min(count, index.layout.num_blocks - first) * size
        filled = source.read_into(index.block_start(first), buffer[:wanted])
        for at in range(0, wanted, size):
            data = buffer[at : min(at + size, filled)]
            number = first + at // size
            if xxhash.xxh3_128_digest(data) != index.block_digest(number):
                bad.append(number)
        progress(wanted)
    return bad


def _damaged(source: ByteSource, name: str, index: Index, bad: list[int]) -> Finding:
    layout = index.layout
    weak = {block % layout.stripes for block in bad}
    parts = []
    if bad:
        parts.append(f"{len(bad)} of {layout.num_blocks} blocks")
    if index.whole_copies < 2:
        parts.append("one of the two copies of its index")
    if not parts:
        parts.append(f"its size: {source.size} bytes instead of {expected_size(index)}")
    evidence: dict[str, Any] = {"damaged_blocks": bad[:_MAX_LISTED], "num_damaged": len(bad)}
    place: dict[str, Any] = {}
    if bad:
        evidence["weakened_stripes"] = len(weak)
        spans = [
            (index.block_start(block), index.block_start(block + 1)) for block in bad[:_MAX_LISTED]
        ]
        place = {"byte_range": spans[0]} if len(spans) == 1 else {"byte_ranges": tuple(spans)}
    return rule("FIL101").finding(
        f"{name} is damaged in {' and '.join(parts)}; the files that it protects are judged apart",
        where=Location(path=name, **place),
        evidence=evidence,
        severity=Severity.WARNING,
        remedy=_SEAL_AGAIN,
    )


def _stale(name: str, paths: list[str]) -> Finding:
    return rule("FIL101").finding(
        f"{name} was computed from other files than the manifest lists: it does not protect "
        f"{len(paths)} of them",
        where=Location(path=name),
        evidence={"files": sorted(paths)[:_MAX_LISTED]},
        severity=Severity.WARNING,
        remedy=_SEAL_AGAIN,
    )


def _missing(name: str, manifest: Manifest) -> Finding:
    return rule("FIL103").finding(
        f"{name} is listed by the manifest and is not there: nothing can be restored from it",
        where=Location(path=name),
        evidence={
            "listed_by": "the manifest",
            "size_bytes": (manifest.parity or {}).get("size_bytes"),
        },
        severity=Severity.WARNING,
        remedy=_SEAL_AGAIN,
    )
