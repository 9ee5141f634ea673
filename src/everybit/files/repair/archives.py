"""A damaged record of an archive, put right from the other records that say the same.

Every member is described twice, before its data and in the central directory, and where the data
carry a checksum the two must give it. A single flipped bit in one of these records is found by
trying: it is put back where exactly one change makes the whole archive agree with itself.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty
from everybit.files.damage import MalformedError
from everybit.files.reading import read_structure
from everybit.files.repair.mending import Evidence, Mend
from everybit.files.seals.patched import PatchedSource
from everybit.files.tensor import FileFormat
from everybit.files.zips import records as zr
from everybit.files.zips.archive import read_archive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure
    from everybit.files.zips.archive import Member

_MAX_SECONDS: Final = 10.0
_MAX_CANDIDATES: Final = 64
_MAX_MEMBERS: Final = 16
#: Twins that differ in more bits were not damaged but mixed up.
_MAX_BITS: Final = 16
#: Lengths of what may stand between a member's data and the next header.
_DESCRIPTORS: Final = (0, 16, 24)
_PAD: Final = b"Z"
_KNOWN_NAME: Final = re.compile(
    r"(^|/)(data\.pkl|version|byteorder|\.format_version|\.storage_alignment|data/\d+"
    r"|\.data/serialization_id)$"
)

_WINDOW: Final = 1 << 20
_OVERLAP: Final = 1 << 17

Patch = dict[int, int]

_TAIL: Final = zr.END.size + zr.LOCATOR64.size + zr.END64.size


def mend_checksum_record(
    source: ByteSource, member: Member, status: str, computed: int
) -> Mend | None:
    """Return how a damaged CRC field is put right: its data and its other record agree.

    Args:
        source: The file.
        member: The member whose data give one of its two CRCs on record.
        status: `directory` or `descriptor`, which of the two is damaged.
        computed: The CRC-32 of the data.

    Returns:
        None where the field is not found.

    Raises:
        PathError: The file cannot be read.
    """
    if status == "directory":
        entry = _find_entry(source, member)
        at = None if entry is None else entry + 16
    elif member.flags & zr.FLAG_DESCRIPTOR:
        at = member.end + 4 if source.read(member.end, 4) == zr.DESCRIPTOR_MARK else None
    else:
        at = member.header_offset + 14 if _is_local(source, member.header_offset) else None
    if at is None:
        return None
    right = computed.to_bytes(4, "little")
    return Mend(
        start=at,
        end=at + 4,
        evidence=Evidence.RECORDS,
        certainty=Certainty.STRONG,
        fetch=lambda: right,
        num_bytes=sum(a != b for a, b in zip(source.read(at, 4), right, strict=False)),
        witnesses=("the member's data and its other record give the same checksum",),
    )


def _is_local(source: ByteSource, offset: int) -> bool:
    return source.read(offset, 4) == zr.LOCAL_MARK


def _find_entry(source: ByteSource, member: Member) -> int | None:
    """Return where the central entry of a member lies: behind all data, under its name."""
    at = max(member.end, member.header_offset)
    while at < source.size:
        window = source.read(at, _WINDOW + _OVERLAP)
        place = window.find(zr.CENTRAL_MARK)
        while 0 <= place < _WINDOW:
            entry = zr.parse_central(window, place)
            # A member of a nested archive goes by that archive's name first.
            if entry is not None and entry.crc == member.crc and _ends(member.name, entry.name):
                return at + place
            place = window.find(zr.CENTRAL_MARK, place + 1)
        at += _WINDOW
    return None


def _ends(name: str, inner: str) -> bool:
    return name == inner or name.endswith(f"/{inner}")


def mend_records(source: ByteSource, structure: Structure) -> Mend | None:
    """Return the one change to an archive's records that makes all of them agree.

    First each record is put as its twin says, then single bits are flipped where the damage is.

    Args:
        source: The file.
        structure: What was read of it, with its damages.

    Returns:
        None where nothing does, where several changes do equally well, or where the search would
        take too long.

    Raises:
        PathError: The file cannot be read.
    """
    if any("shifted_by" in damage.evidence for damage in structure.damages):
        return None  # bytes are missing or too many: no change in place brings them back
    patches = [patch for patch in _by_twins(source, structure) if _agrees(source, structure, patch)]
    told = "one of two records that describe the member, put as the other says, settles all"
    if not patches:
        found = _by_flips(source, structure)
        if found is None:
            return None
        patches, num_tried = found
        told = f"of {num_tried} bits tried in the damaged records only this one settles all"
    best = _best(source, patches)
    if best is None:
        return None
    start, end = min(best), max(best) + 1
    right = bytearray(source.read(start, end - start))
    for offset, byte in best.items():
        right[offset - start] = byte
    return Mend(
        start=start,
        end=end,
        evidence=Evidence.RECORDS,
        certainty=Certainty.STRONG,
        fetch=lambda: bytes(right),
        num_bytes=len(best),
        witnesses=(told,),
    )


def _by_twins(source: ByteSource, structure: Structure) -> Iterable[Patch]:
    """Yield changes that make the two descriptions of a member the same, either way."""
    names = {damage.where.member for damage in structure.damages if not damage.from_pickle}
    members = [member for member in structure.members if member.name in names]
    for member in members[:_MAX_MEMBERS]:
        padding = _padding(source, member)
        if padding:
            yield padding
        entry = _find_entry(source, member)
        local = member.header_offset
        if entry is None:
            continue
        yield from _offsets(source, structure, member, entry)
        length = int.from_bytes(source.read(entry + 28, 2), "little")
        pairs = [
            (local + 4, entry + 6, 10),
            (local + 26, entry + 28, 2),
            (local + zr.LOCAL.size, entry + zr.CENTRAL.size, length),
        ]
        if not member.flags & zr.FLAG_DESCRIPTOR:
            pairs.append((local + 18, entry + 20, 8))
        for one, other, size in pairs:
            left, right = source.read(one, size), source.read(other, size)
            if left != right and len(left) == len(right) and _num_bits(left, right) <= _MAX_BITS:
                yield _difference(one, left, right)
                yield _difference(other, right, left)


def _offsets(
    source: ByteSource, structure: Structure, member: Member, entry: int
) -> Iterable[Patch]:
    """Yield where the entry of a member could have to point: at a header with its name."""
    if structure.format is FileFormat.DISTCP:
        return  # its offsets count from the start of a nested archive
    name = member.name.encode("utf-8", "surrogateescape")
    held = source.read(entry + 42, 4)
    ends = [0, *(other.end for other in structure.members if other.usable)]
    for at in (end + behind for end in ends for behind in _DESCRIPTORS):
        wanted = (at & 0xFFFFFFFF).to_bytes(4, "little")
        if wanted == held or not _is_local(source, at) or _num_bits(held, wanted) > _MAX_BITS:
            continue
        head = source.read(at, zr.LOCAL.size + len(name))
        if head[zr.LOCAL.size :] == name:
            yield _difference(entry + 42, held, wanted)


def _padding(source: ByteSource, member: Member) -> Patch | None:
    """Return what is wrong with the field that PyTorch aligns data with: `FB`, length, `ZZZ...`."""
    head = source.read(member.header_offset, zr.LOCAL.size)
    name_bytes, size = (int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
    start = member.header_offset + zr.LOCAL.size + name_bytes
    extra = source.read(start, size)
    if size < 4 or len(extra) < size:
        return None
    patch = _difference(start, extra, b"FB" + (size - 4).to_bytes(2, "little") + _PAD * (size - 4))
    return patch if len(patch) <= 2 + size // 8 else None


def _difference(start: int, found: bytes, wanted: bytes) -> Patch:
    return {start + at: byte for at, byte in enumerate(wanted) if byte != found[at]}


def _num_bits(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).bit_count()


def _by_flips(source: ByteSource, structure: Structure) -> tuple[list[Patch], int] | None:
    """Return the single flipped bits that settle all, and how many bits were tried."""
    until = time.monotonic() + _MAX_SECONDS
    found: list[Patch] = []
    tried: set[int] = set()
    for start, end in _suspects(source, structure):
        for offset in range(max(0, start), min(end, source.size)):
            if offset in tried:
                continue
            tried.add(offset)
            held = source.read(offset, 1)[0]
            for bit in range(8):
                if time.monotonic() > until or len(found) > _MAX_CANDIDATES:
                    return None
                patch = {offset: held ^ 1 << bit}
                if _agrees(source, structure, patch):
                    found.append(patch)
    return found, 8 * len(tried)


def _suspects(source: ByteSource, structure: Structure) -> Iterable[tuple[int, int]]:
    """Yield the records that the damages point at, and the end records where they do."""
    placed = False
    for damage in structure.damages[:_MAX_MEMBERS]:
        place = damage.where.byte_range
        if damage.from_pickle:
            continue
        if place is not None:
            # A place may be told by its first bytes only.
            yield place[0], min(max(place[1], place[0] + zr.CENTRAL.size), place[0] + 512)
            placed = placed or place[1] < source.size - _TAIL
        central = damage.evidence.get("central_range")
        if isinstance(central, list) and len(central) == 2:
            yield central[0], central[1]
    yield 0, zr.LOCAL.size
    if not placed:
        yield source.size - _TAIL, source.size


def _agrees(source: ByteSource, structure: Structure, patch: Patch) -> bool:
    patched = PatchedSource(source, patch)
    if structure.format is FileFormat.DISTCP:
        return not read_structure(patched).damages
    try:
        archive = read_archive(patched)
    except MalformedError:
        return False
    return not archive.damages and all(member.usable for member in archive.members)


def _best(source: ByteSource, patches: list[Patch]) -> Patch | None:
    """Return the change that leaves no damage at all and the most uniform records."""
    rated = []
    for patch in patches:
        patched = PatchedSource(source, patch)
        structure = read_structure(patched)
        kinds = {_kind(patched, member) for member in structure.members}
        differing = sum(member.other_crc is not None for member in structure.members)
        rating = (len(structure.damages), differing, _num_strange(structure), len(kinds))
        rated.append((rating, patch))
    rated.sort(key=lambda item: item[0])
    if not rated or rated[0][0][0] or (len(rated) > 1 and rated[0][0] == rated[1][0]):
        return None
    return rated[0][1]


def _kind(source: ByteSource, member: Member) -> tuple[bytes, bytes]:
    """Return the fields of a local header that one writer gives to all members."""
    head = source.read(member.header_offset, zr.LOCAL.size)
    name_bytes = int.from_bytes(head[26:28], "little")
    return head[4:14], source.read(member.header_offset + zr.LOCAL.size + name_bytes, 2)


def _num_strange(structure: Structure) -> int:
    """Count members under names that `torch.save` does not write, and pickles without tensors."""
    strange = 0 if structure.tensors or structure.format is not FileFormat.TORCH_ZIP else 1
    roots = Counter(member.name.partition("/")[0] for member in structure.members)
    common = roots.most_common(1)[0][0] if roots else ""
    for member in structure.members:
        root, _, name = member.name.partition("/")
        strange += structure.format is FileFormat.TORCH_ZIP and root != common
        strange += not _KNOWN_NAME.search(name)
    return strange + (structure.format is not FileFormat.TORCH_ZIP)
