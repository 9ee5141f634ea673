"""The `.distcp` files of DCP: torch archives end to end, one for each chunk or value.

Where they begin and what they are called stands in the `.metadata` beside them. Without that, or
where it speaks of another file, they are found one after the other by their own records.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import PathError
from everybit.core.finding import Location
from everybit.core.verdict import Skipped
from everybit.files.damage import Damage, MalformedError, cut_short
from everybit.files.formats.dcp_metadata import METADATA_NAME, DcpEntry, DcpMetadata, read_metadata
from everybit.files.formats.distcp_entry import ReadEntry, read_one
from everybit.files.formats.distcp_shift import Shift, find_owner, find_shift, is_archive, misplaced
from everybit.files.source import ByteSource
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat
from everybit.files.zips.archive import ends_as_archive
from everybit.files.zips.records import END_MARK
from everybit.files.zips.runs import find_archives

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.pickles.plain import Plain

_MAX_DAMAGES: Final = 100
_TAIL_BYTES: Final = 64 * 1024


def is_distcp(source: ByteSource) -> bool:
    """Return whether a file that begins or ends as an archive is several of them end to end."""
    metadata = metadata_beside(source)
    if isinstance(metadata, DcpMetadata) and _listed(metadata, source.path.name):
        return True
    if ends_as_archive(source):
        return False
    (_, end), *_ = find_archives(source, most=1) or [(0, source.size)]
    if end >= source.size:
        return False
    tail = source.read(max(end, source.size - _TAIL_BYTES), _TAIL_BYTES)
    return is_archive(source, end) or END_MARK in tail


def metadata_beside(source: ByteSource) -> DcpMetadata | str | None:
    """Return the `.metadata` in the file's folder, or why it cannot be read; None without one."""
    place = source.path.parent / METADATA_NAME
    if not place.is_file():
        return None
    try:
        with ByteSource(place) as beside:
            return read_metadata(beside)
    except MalformedError as error:
        return error.damage.message
    except PathError as error:
        return error.what


def _listed(metadata: DcpMetadata, path: str) -> list[DcpEntry]:
    mine = [entry for entry in metadata.entries if entry.path == path]
    return sorted(mine, key=lambda entry: (entry.start, entry.end))


def read_structure(source: ByteSource) -> Structure:
    """Read and check every entry, and hold it against the `.metadata` beside the file."""
    metadata = metadata_beside(source)
    known = metadata if isinstance(metadata, DcpMetadata) else None
    entries, damages, skipped = read_entries(source, known, source.path.name)
    if isinstance(metadata, str):
        why = f"the {METADATA_NAME} beside it cannot be read: {metadata}"
        skipped.append(Skipped(what="names of its tensors", why=why))
    elif known is not None and not _listed(known, source.path.name):
        why = f"the {METADATA_NAME} beside it does not list this file"
        skipped.append(Skipped(what="names of its tensors", why=why))
    members = tuple(member for each in entries for member in each.structure.members)
    filled = [member for member in members if member.size]
    values, values_whole = _values(entries)
    return Structure(
        format=FileFormat.DISTCP,
        tensors=tuple(tensor for each in entries for tensor in each.structure.tensors),
        damages=tuple(
            (*damages, *(damage for each in entries for damage in each.structure.damages))[
                :_MAX_DAMAGES
            ]
        ),
        members=members,
        has_checksums=not filled or 2 * sum(each.crc != 0 for each in filled) > len(filled),
        skipped=(*skipped, *(item for each in entries for item in each.structure.skipped)),
        notes=() if known is not None else (f"no {METADATA_NAME} beside it names its tensors",),
        values=values,
        values_whole=values_whole,
    )


def _values(entries: list[ReadEntry]) -> tuple[dict[str, Plain], bool]:
    """Return the plain values of the entries that are no chunks of tensors, and if all are."""
    found: dict[str, Plain] = {}
    whole = True
    for each in entries:
        if each.listed is not None and each.listed.offset is not None:
            continue
        held = each.structure.values
        found |= {f"{each.label}.{key}" if key else each.label: v for key, v in held.items()}
        whole = whole and each.structure.values_whole
    return found, whole


def read_entries(
    source: ByteSource, metadata: DcpMetadata | None, path: str
) -> tuple[list[ReadEntry], list[Damage], list[Skipped]]:
    """Read every entry of a file.

    Args:
        source: The file.
        metadata: The folder's; None where there is none.
        path: The file's path in the folder, as the metadata lists it.

    Returns:
        The entries in file order, what is wrong with the file around them, and what was not read.
    """
    listed = _listed(metadata, path) if metadata is not None else []
    damages: list[Damage] = []
    skipped: list[Skipped] = []
    if metadata is not None and metadata.damages:
        # What is wrong there is told there; here it only lends its names.
        why = f"the {METADATA_NAME} beside it is damaged"
        skipped.append(Skipped(what=f"agreement with {METADATA_NAME}", why=why))
        return _scan(source, skipped, metadata, listed), damages, skipped
    if metadata is not None and listed:
        owner = find_owner(source, metadata.entries, path)
        if owner is not None and not _fills(source, listed):
            entries = _read_listed(source, metadata, _listed(metadata, owner), [], skipped)
            return entries, [misplaced(source, owner)], skipped
        moved = find_shift(source, listed)
        if moved is not None:
            entries = _read_moved(source, metadata, listed, moved)
            if all(_fits(metadata, entry) for entry in entries):
                return entries, [moved.damage], skipped
        if _lies_as_listed(source, listed):
            return _read_listed(source, metadata, listed, damages, skipped), damages, skipped
        entries = _scan(source, skipped)
        moot = [damage for each in entries for damage in each.structure.damages]
        entries = [replace(each, structure=replace(each.structure, damages=())) for each in entries]
        return entries, [_misplaced(source, listed, moot)], skipped
    return _scan(source, skipped), damages, skipped


def _scan(
    source: ByteSource,
    skipped: list[Skipped],
    metadata: DcpMetadata | None = None,
    listed: Sequence[DcpEntry] = (),
) -> list[ReadEntry]:
    """Read the entries that the file itself shows, under the names that are listed for them."""
    known = {(entry.start, entry.end): entry for entry in listed}
    entries = []
    for index, (start, end) in enumerate(find_archives(source)):
        entry = known.get((start, end))
        label = f"#{index}"
        if metadata is not None and entry is not None:
            label = _chunk_name(metadata, entry)
        entries.append(read_one(source, label, start, end, entry, skipped))
    return entries


def _fills(source: ByteSource, listed: list[DcpEntry]) -> bool:
    """Return whether archives begin at all places and the last of them ends the file."""
    return source.size == listed[-1].end and all(is_archive(source, e.start) for e in listed)


def _lies_as_listed(source: ByteSource, listed: list[DcpEntry]) -> bool:
    """Return whether archives begin at most places that are inside the file, or nowhere else."""
    inside = [e for e in listed if e.end <= source.size and not e.transforms and e.end > e.start]
    if not inside:
        return True
    if 2 * sum(is_archive(source, entry.start) for entry in inside) >= len(inside):
        return True
    starts = {entry.start for entry in listed}
    found = [start for start, _ in find_archives(source, most=len(listed) + 1)]
    # Overwritten for the most part, what is left still lies in its place.
    whole = [start for start in found if is_archive(source, start)]
    return bool(whole) and starts.issuperset(whole) and source.size == listed[-1].end


def _read_moved(
    source: ByteSource,
    metadata: DcpMetadata,
    listed: list[DcpEntry],
    shift: Shift,
) -> list[ReadEntry]:
    """Read the entries before and behind the one that lost or gained bytes, where they are now."""
    entries = []
    for index, (entry, label) in enumerate(zip(listed, _labels(metadata, listed), strict=True)):
        if index not in shift.hit:
            by = shift.distance if index > shift.hit[-1] else 0
            place = (entry.start + by, entry.end + by)
            entries.append(read_one(source, label, *place, entry, []))
    return entries


def _misplaced(source: ByteSource, listed: list[DcpEntry], moot: list[Damage]) -> Damage:
    more = {"structure": [damage.message for damage in moot[:3]]} if moot else {}
    wrong = [entry for entry in listed if not is_archive(source, entry.start)]
    return Damage(
        rule="FIL114",
        message=f"its entries do not lie where {METADATA_NAME} says ({len(wrong)} of {len(listed)} "
        "do not): it is the file of another rank or another save",
        where=Location(byte_range=(0, source.size)),
        evidence={
            "listed_by": METADATA_NAME,
            "num_entries": len(listed),
            "num_wrong": len(wrong),
            **more,
        },
    )


def _stray(start: int, end: int) -> Damage:
    return Damage(
        rule="FIL107",
        message=f"{end - start} bytes belong to none of its entries",
        where=Location(byte_range=(start, end)),
    )


def _read_listed(
    source: ByteSource,
    metadata: DcpMetadata,
    listed: list[DcpEntry],
    damages: list[Damage],
    skipped: list[Skipped],
) -> list[ReadEntry]:
    entries: list[ReadEntry] = []
    odd: list[dict[str, Any]] = []
    reach = 0
    for entry, label in zip(listed, _labels(metadata, listed), strict=True):
        if reach < min(entry.start, source.size):
            damages.append(_stray(reach, min(entry.start, source.size)))
        reach = max(reach, entry.end)
        if entry.transforms:
            why = f"it was written through {', '.join(entry.transforms)[:80]}"
            skipped.append(Skipped(what=f"entry {label}", why=why))
        elif entry.end <= source.size:
            read = read_one(source, label, entry.start, entry.end, entry, skipped)
            problem = _disagreement(metadata, entry, read.structure)
            if problem:
                odd.append({"entry": label, **problem})
            entries.append(read)
    if reach > source.size:
        damages.insert(0, _cut(source, listed, entries, reach))
    elif reach < source.size:
        damages.append(_stray(reach, source.size))
    if odd:
        damages.append(_disagrees(odd))
    return entries


def _fits(metadata: DcpMetadata, read: ReadEntry) -> bool:
    """Return whether an entry is whole and what is listed; the one of another save is not."""
    listed, found = read.listed, read.structure
    if listed is None or found.damages or found.skipped:
        return False
    return _disagreement(metadata, listed, found) is None


def _labels(metadata: DcpMetadata, listed: list[DcpEntry]) -> list[str]:
    """Return what entries are called: their tensor, and the chunk where the file has several."""
    counts = Counter(entry.name for entry in listed)
    return [
        entry.name if counts[entry.name] == 1 else _chunk_name(metadata, entry) for entry in listed
    ]


def _chunk_name(metadata: DcpMetadata, entry: DcpEntry) -> str:
    """Return a name that tells a chunk from the others of its tensor."""
    shape = metadata.chunk_shape(entry)
    if shape is None or entry.offset is None or len(shape) != len(entry.offset):
        return entry.name
    if shape == metadata.tensors[entry.name].shape:
        return entry.name
    spans = ",".join(f"{a}:{a + n}" for a, n in zip(entry.offset, shape, strict=True))
    return f"{entry.name}[{spans}]"


def _cut(
    source: ByteSource, listed: list[DcpEntry], entries: list[ReadEntry], reach: int
) -> Damage:
    whole = [tensor.name for each in entries for tensor in each.structure.tensors]
    num_tensors = sum(entry.offset is not None for entry in listed)
    num_whole = sum(entry.offset is not None and entry.end <= source.size for entry in listed)
    return cut_short(
        f"ends after {source.size} of {reach} bytes; {num_whole} of {num_tensors} chunks "
        "lie wholly before the cut",
        source.size,
        reach,
        METADATA_NAME,
        readable=whole,
        num_lost=num_tensors - num_whole,
    )


def _disagreement(
    metadata: DcpMetadata, entry: DcpEntry, structure: Structure
) -> dict[str, Any] | None:
    """Return how an entry's tensor departs from what is listed; None where it does not."""
    if entry.offset is None:
        return None
    shape = metadata.chunk_shape(entry)
    if shape is None or structure.damages or structure.skipped:
        # What the metadata lacks is its own damage; what the archive lacks is the archive's.
        return None
    wanted = metadata.tensors[entry.name]
    held = [f"{each.dtype}{list(each.shape)}" for each in structure.tensors]
    listed = f"{wanted.dtype}{list(shape)}"
    if held == [listed]:
        return None
    found = held[0] if held else "no tensor"
    return {"listed": listed, "found": found, "byte_range": [entry.start, entry.end]}


def _disagrees(odd: list[dict[str, Any]]) -> Damage:
    first = odd[0]
    more = f", and {len(odd) - 1} more do not agree" if len(odd) > 1 else ""
    start, end = first["byte_range"]
    record = f"{first['entry']}/archive/data.pkl"
    return Damage(
        rule="FIL114",
        message=f"holds {first['found']} where {METADATA_NAME} lists {first['entry']} as "
        f"{first['listed']}{more}",
        where=Location(tensor=first["entry"], member=record, byte_range=(start, end)),
        evidence={"listed_by": METADATA_NAME, "entries": odd[:16], "num_wrong": len(odd)},
        from_pickle=True,
    )
