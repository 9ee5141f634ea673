"""A file with no seal: everything that its own format and its own values allow to be tested.

In this order, and never stopping at the first finding: structure and sizes, the members' own
checksums, holes of zeros, values that are not finite or not plausible. Checksums and values come
out of one pass over the bytes. One damage is told once, by the most specific of its signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.verdict import Skipped
from everybit.files.checks.checksums import Checksums, broken_records, check_members
from everybit.files.checks.other_content import tell_misnamed, tell_unreadable
from everybit.files.checks.signs import tell
from everybit.files.checks.token_values import check_token_values
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress
from everybit.files.reading import read_structure
from everybit.files.tensor import FileFormat
from everybit.files.values.judging import Judged, judge
from everybit.files.values.spans import spans_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure


def check_unsealed(
    source: ByteSource,
    name: str,
    *,
    full: bool = True,
    progress: Callable[[int], None] = no_progress,
) -> Outcome:
    """Test one open file by its format and its values.

    Args:
        source: The file.
        name: Its path relative to the target, for findings.
        full: Also read the contents: against the archive's checksums, for holes and for values
            that cannot be; else the structure only.
        progress: Is told the bytes read, as they are.
    """
    outcome = Outcome()
    structure = read_structure(source)
    if not structure.format.readable:
        tell_unreadable(source, structure.format, name, outcome)
        return outcome
    spans = spans_of(structure.tensors) if full else []
    checksums = check_members(source, structure, spans, full=full, progress=progress)
    if structure.has_checksums and structure.members:
        outcome.count("member checksums", checksums.num_checked)
    outcome.count("file structures")
    judged = Judged()
    if spans:
        records = broken_records(structure)
        judged = judge(source, spans, checksums.scan, checksums.failed_ranges, records)
        outcome.count("tensors tested for holes and impossible values", len(structure.tensors))
    outcome.num_bytes += checksums.num_bytes
    misnamed = tell_misnamed(source, structure, name)
    if structure.tensors or not misnamed:
        outcome.findings += tell(structure, checksums, judged, name, source.size)
    outcome.findings += misnamed
    if full and structure.format is FileFormat.TOKENS and not structure.damages:
        outcome.findings += check_token_values(source, name)
    outcome.skipped += _skipped(structure, checksums, name, full=full)
    return outcome


def _skipped(structure: Structure, checksums: Checksums, name: str, *, full: bool) -> list[Skipped]:
    """Return what was not checked; data that only their values speak for are not verified."""
    skipped = [Skipped(what=f"{name}: member {it.what}", why=it.why) for it in checksums.skipped]
    skipped += [
        Skipped(what=f"{name}: {item.what}", why=item.why, promised=item.promised)
        for item in structure.skipped
    ]
    if not full:
        return skipped
    if structure.members and not structure.has_checksums:
        why = "the archive was saved without checksums (all are zero); seal it while it is good"
        skipped.append(Skipped(what=f"{name}: checksums of its members", why=why))
    elif not structure.format.checksummed:
        held = f"bytes of {len(structure.tensors)} tensors" if structure.tensors else "its bytes"
        skipped.append(
            Skipped(
                what=f"{name}: {held}",
                why=f"{structure.format} carries no checksum and the file is not sealed; "
                "`everybit seal` it while it is known to be good, or ask for --level structure",
            )
        )
    return skipped
