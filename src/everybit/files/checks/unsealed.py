"""A file with no seal: everything that its own format and its own values allow to be tested.

In this order, and never stopping at the first finding: structure and sizes, the members' own
checksums, holes of zeros, values that are not finite or not plausible. Checksums and values come
out of one pass over the bytes. One damage is told once, by the most specific of its signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Finding, Location
from everybit.core.rule import rule
from everybit.core.verdict import Skipped
from everybit.files.checks.checksums import Checksums, check_members
from everybit.files.checks.signs import tell
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress
from everybit.files.reading import describe_not_a_model, read_structure
from everybit.files.sniff import looks_like_model_name
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
        _tell_other_format(structure.format, source, name, outcome)
        return outcome
    spans = spans_of(structure.tensors) if full else []
    checksums = check_members(source, structure, spans, full=full, progress=progress)
    judged = Judged()
    if spans:
        judged = judge(source, spans, checksums.scan, checksums.failed_ranges)
        outcome.count("tensors tested for holes and impossible values", len(structure.tensors))
    outcome.count("file structures")
    if checksums.num_checked:
        outcome.count("member checksums", checksums.num_checked)
    outcome.num_bytes += checksums.num_bytes
    outcome.findings += tell(structure, checksums, judged, name)
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


def _tell_other_format(kind: FileFormat, source: ByteSource, name: str, outcome: Outcome) -> None:
    what, todo = describe_not_a_model(kind)
    named_so = looks_like_model_name(name)
    if (what and named_so) or kind is FileFormat.LFS_POINTER:
        outcome.count("file structures")
        outcome.findings.append(_not_a_model(what, todo, source, name))
    elif named_so and name.lower().endswith(".safetensors"):
        outcome.count("file structures")
        what = "is no safetensors file" + (f" but {kind}" if kind is not FileFormat.UNKNOWN else "")
        outcome.findings.append(_not_a_model(what, "fetch the real file", source, name))
    else:
        why = f"its format is not read by this release ({kind}) and it is not sealed"
        outcome.skipped.append(Skipped(what=f"{name}: structure and bytes", why=why))


def _not_a_model(what: str, todo: str, source: ByteSource, name: str) -> Finding:
    head = source.read(0, 64)
    return rule("FIL118").finding(
        f"{name} {what}, under a model's name",
        where=Location(path=name, byte_range=(0, min(64, source.size)) if head else None),
        evidence={
            "size_bytes": source.size,
            "first_bytes": head.decode("ascii", "backslashreplace"),
        },
        remedy=f"{todo[:1].upper()}{todo[1:]}." if todo else "",
    )
