"""NumPy's `.npz`: a ZIP archive of `.npy` members, each with a CRC-32."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.verdict import Skipped
from everybit.files.damage import Damage, MalformedError, TooLargeError
from everybit.files.formats import npy
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat, FileTensor
from everybit.files.window import Window
from everybit.files.zips.archive import Member, read_archive
from everybit.files.zips.members import member_chunks, unreadable
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

_SUFFIX: Final = ".npy"
#: Enough of a compressed member for its header.
_HEADER_BYTES: Final = 128 * 1024
_MAX_DAMAGES: Final = 100
_MAX_ARRAYS: Final = 200_000


class _Head:
    """The first bytes of a compressed member, read as if they were the file."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = data
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on."""
        return self._data[offset : offset + length]


def is_npz(source: ByteSource) -> bool:
    """Return whether an archive's members are arrays."""
    if b"/data.pkl" in source.read(0, 512):
        return False
    try:
        members = read_archive(source).members
    except MalformedError:
        # The directory is gone; the first member's name is all there is.
        head = source.read(0, 30)
        length = int.from_bytes(head[26:28], "little")
        return source.read(30, length).endswith(_SUFFIX.encode())
    return any(member.name.endswith(_SUFFIX) for member in members)


def read_structure(source: ByteSource) -> Structure:
    """Read and check the archive's directory and the header of every array.

    Raises:
        MalformedError: There is no archive directory.
    """
    archive = read_archive(source)
    tensors: list[FileTensor] = []
    damages: list[Damage] = list(archive.damages)
    skipped: list[Skipped] = []
    for member in archive.members[:_MAX_ARRAYS]:
        if not member.name.endswith(_SUFFIX) or not member.usable:
            continue
        found = _read_array(source, member)
        if isinstance(found, FileTensor):
            tensors.append(found)
        elif isinstance(found, Damage):
            damages.append(found)
        else:
            skipped.append(found)
    if len(archive.members) > _MAX_ARRAYS:
        why = f"it has {len(archive.members)} members"
        skipped.append(Skipped(what="some of its arrays", why=why))
    tensors.sort(key=lambda tensor: (tensor.byte_ranges[:1], tensor.name))
    return Structure(
        format=FileFormat.NPZ,
        tensors=tuple(tensors),
        damages=tuple(damages[:_MAX_DAMAGES]),
        members=archive.members,
        has_checksums=archive.has_checksums,
        skipped=tuple(skipped),
    )


def _read_array(source: ByteSource, member: Member) -> FileTensor | Damage | Skipped:
    name = member.name.removesuffix(_SUFFIX)
    problem = unreadable(member)
    if problem:
        return Skipped(what=f"array {name}", why=problem)
    stored = member.method == STORED
    try:
        if stored:
            header = npy.read_header(Window(source, member.start, member.end))
        else:
            header = npy.read_header(_head(source, member))  # type: ignore[arg-type]
    except TooLargeError as error:
        return Skipped(what=f"array {name}", why=error.damage.message)
    except MalformedError as error:
        return _damage(member, error.damage.message)
    wanted = header.num_bytes
    if wanted is not None and header.end + wanted != member.size:
        return _damage(
            member,
            f"its header promises {header.end + wanted} bytes, it has {member.size}",
        )
    tensor = npy.place_array(header, name, member.start)
    if tensor is None:
        # Its bytes are checked all the same, by the member's checksum.
        return Skipped(what=f"array {name}", why=header.kind, promised=False)
    if stored:
        return replace(tensor, member=member.name)
    return replace(
        tensor,
        member=member.name,
        start=member.start,
        byte_ranges=((member.start, member.end),) if wanted else (),
        unreadable="its member is compressed" if wanted else "",
    )


def _head(source: ByteSource, member: Member) -> _Head:
    data = bytearray()
    for chunk in member_chunks(source, member):
        data += chunk
        if len(data) >= _HEADER_BYTES:
            break
    return _Head(bytes(data), member.size)


def _damage(member: Member, problem: str) -> Damage:
    # As with a torch archive's pickle record: the member's own checksum tells whether it is moot.
    return Damage(
        rule="FIL107",
        message=f"member {member.name}: {problem}",
        where=Location(member=member.name, byte_range=(member.start, member.end)),
        from_pickle=True,
    )
