"""The `torch.save` format since 1.6: a ZIP archive of a pickle and a member for each storage."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.verdict import Skipped
from everybit.files import crc32
from everybit.files.collection import paused_collection
from everybit.files.damage import Damage, MalformedError, TooLargeError, malformed
from everybit.files.formats.placing import hold_member, place_tensor
from everybit.files.pickles.opcodes import interpret
from everybit.files.pickles.plain import collect_plain
from everybit.files.pickles.torch_objects import find_tensors
from everybit.files.structure import TENSORS, Structure
from everybit.files.tensor import FileFormat, FileTensor
from everybit.files.zips.archive import Archive, Member, read_archive
from everybit.files.zips.members import read_member
from everybit.files.zips.records import END, parse_central
from everybit.files.zips.recovery import recover

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Pickle
    from everybit.files.source import ByteSource

#: A longer pickle record is not interpreted. One of a hundred thousand tensors has 20 MB.
MAX_PICKLE_BYTES: Final = 256 * 1024 * 1024
_MAX_DAMAGES: Final = 100
_MAX_DIRECTORY_BYTES: Final = 64 * 1024 * 1024


def read_structure(source: ByteSource) -> Structure:
    """Read and check the archive's directory, its pickle record, and where each tensor lies.

    Raises:
        MalformedError: There is no archive directory.
    """
    try:
        archive = read_archive(source)
    except MalformedError as error:
        if error.rule == "FIL104":
            raise _without_end(source, error) from None
        raise
    root = find_root(archive.members)
    structure = Structure(
        format=FileFormat.ZIP if root is None else FileFormat.TORCH_ZIP,
        damages=archive.damages,
        members=archive.members,
        has_checksums=archive.has_checksums,
    )
    if root is None:
        return structure
    record = next(m for m in archive.members if m.name == f"{root}data.pkl")
    return _with_tensors(source, structure, archive, root, record)


def read_remains(source: ByteSource) -> tuple[Structure, tuple[str, ...]]:
    """Read what is left of an archive that has no directory, or a useless one.

    Returns:
        The structure of the members that are there whole, and the names of tensors whose storage
        is not.
    """
    left = recover(source)
    archive = Archive(members=left.members, damages=(), directory_start=left.cut_at)
    root = find_root(archive.members)
    structure = Structure(
        format=FileFormat.ZIP if root is None else FileFormat.TORCH_ZIP,
        members=archive.members,
        has_checksums=archive.has_checksums,
    )
    if root is None:
        return structure, left.lost
    record = next(m for m in archive.members if m.name == f"{root}data.pkl")
    return _with_tensors(source, structure, archive, root, record), left.lost


def _without_end(source: ByteSource, error: MalformedError) -> MalformedError:
    """Return the error for an archive without end record, with what is left of it."""
    left = recover(source)
    if left.directory_start is not None and _directory_ends(source, left.directory_start):
        return malformed(
            "its end-of-archive record is damaged; its members and directory are there",
            byte_range=(left.directory_start, source.size),
        )
    num_tensors = len(left.whole) + len(left.lost)
    told = f"; {len(left.whole)} of {num_tensors} tensors are whole before the cut"
    return malformed(
        error.damage.message + (told if num_tensors else ""),
        rule="FIL104",
        byte_range=(min(left.cut_at, source.size), source.size),
        evidence={
            **error.damage.evidence,
            "members": [member.name for member in left.members[:16]],
            "readable": list(left.whole),
            "num_lost": len(left.lost),
        },
    )


def _directory_ends(source: ByteSource, start: int) -> bool:
    """Return whether a whole directory and room for its end record follow `start`."""
    data = source.read(start, min(source.size - start, _MAX_DIRECTORY_BYTES))
    at = 0
    while (entry := parse_central(data, at)) is not None:
        at += entry.length
    return len(data) - at >= END.size


def find_root(members: tuple[Member, ...]) -> str | None:
    """Return the folder inside the archive that holds `data.pkl`, with its slash; None without."""
    for member in members:
        folder, slash, name = member.name.partition("/")
        if slash and folder and name == "data.pkl":
            return f"{folder}/"
    return None


def read_pickle(source: ByteSource, record: Member) -> tuple[bytes, bool]:
    """Return a pickle record's bytes, and whether its CRC-32 holds.

    One flipped bit is put right in the bytes returned (not in the file), where the CRC says which:
    the record then still tells what the archive holds.
    """
    data = read_member(source, record, MAX_PICKLE_BYTES)
    found = zlib.crc32(data)
    if found in (record.crc, record.other_crc) or record.crc == 0:
        return data, True
    flip = crc32.flipped_bit(record.crc ^ found, len(data))
    if flip is not None:
        mended = bytearray(data)
        mended[flip[0]] ^= 1 << flip[1]
        data = bytes(mended)
    return data, False


def _with_tensors(
    source: ByteSource, structure: Structure, archive: Archive, root: str, record: Member
) -> Structure:
    damages = list(structure.damages)
    if not record.usable:
        return replace(structure, values_whole=False)
    if record.size > MAX_PICKLE_BYTES:
        why = f"its pickle record has {record.size} bytes"
        return replace(structure, skipped=(Skipped(what=TENSORS, why=why),), values_whole=False)
    try:
        data, _ = read_pickle(source, record)
        with paused_collection():
            return _place(source, structure, archive, root, record, interpret(data))
    except TooLargeError as error:
        why = error.damage.message
        return replace(structure, skipped=(Skipped(what=TENSORS, why=why),), values_whole=False)
    except MalformedError as error:
        place = Location(member=record.name, byte_range=(record.start, record.end))
        damages.append(replace(error.damage, where=place, from_pickle=True))
        return replace(structure, damages=tuple(damages), values_whole=False)


def _place(
    source: ByteSource,
    structure: Structure,
    archive: Archive,
    root: str,
    record: Member,
    pickle: Pickle,
) -> Structure:
    members = {member.name: member for member in archive.members}
    big_endian, damages = _byte_order(source, members.get(f"{root}byteorder"))
    specs, notes = find_tensors(pickle)
    tensors: list[FileTensor] = []
    skipped = [Skipped(what="some tensor names", why=note, promised=False) for note in notes]
    for spec in specs:
        member = members.get(f"{root}data/{spec.storage.key}") if spec.storage else None
        held = hold_member(member) if member is not None else None
        placed = place_tensor(spec, held, hold_member(record), big_endian=big_endian)
        if isinstance(placed, FileTensor):
            tensors.append(placed)
        elif not isinstance(placed, Damage):
            skipped.append(Skipped(what=f"tensor {spec.name}", why=placed))
        elif member is None and structure.damages:
            # The directory lost the member; that is told.
            skipped.append(Skipped(what=f"tensor {spec.name}", why="its member is lost"))
        else:
            damages.append(placed)
    tensors.sort(key=lambda tensor: (tensor.byte_ranges[:1], tensor.name))
    values, values_whole = collect_plain(pickle)
    remarks = ("elements are stored big-endian",) if big_endian else ()
    return replace(
        structure,
        tensors=tuple(tensors),
        damages=(*structure.damages, *damages[:_MAX_DAMAGES]),
        skipped=tuple(skipped),
        notes=remarks,
        order=tuple(spec.name for spec in specs),
        values=values,
        values_whole=values_whole,
    )


def _byte_order(source: ByteSource, record: Member | None) -> tuple[bool, list[Damage]]:
    if record is None or not record.usable:
        return False, []
    try:
        text = read_member(source, record, 64)
    except MalformedError as error:
        return False, [replace(error.damage, from_pickle=True)]
    if text in (b"little", b"big"):
        return text == b"big", []
    where = Location(member=record.name, byte_range=(record.start, record.end))
    message = f"its byteorder record says {text[:16]!r}, neither little nor big"
    return False, [Damage(rule="FIL107", message=message, where=where)]
