"""An archive with no end record: what is left of it, found from the front.

`torch.save` writes sizes only behind the data, so a cut archive cannot be walked by its headers
alone. But its first member is the pickle record, which ends where its STOP stands and tells the
size of every storage; the rest are small records whose descriptor follows soon.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.files.damage import MalformedError
from everybit.files.pickles.opcodes import interpret
from everybit.files.pickles.stream import read_pickle_at
from everybit.files.pickles.torch_objects import find_tensors
from everybit.files.zips import records as zr
from everybit.files.zips.archive import Member

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

_SMALL_BYTES: Final = 64 * 1024
_MAX_MEMBERS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What the front of an archive still tells.

    Attributes:
        members: Members that are there whole, in file order.
        cut_at: Offset of the first byte that could not be followed.
        directory_start: Where the central directory starts, if it is there.
        whole: Names of tensors whose storage is there whole.
        lost: Names of the others.
    """

    members: tuple[Member, ...]
    cut_at: int
    directory_start: int | None
    whole: tuple[str, ...]
    lost: tuple[str, ...]


def recover(source: ByteSource) -> Remains:
    """Follow the members from the front of the file; never raises for damage."""
    members: list[Member] = []
    sizes: dict[str, int] = {}
    owners: dict[str, list[str]] = {}
    at = 0
    directory = None
    while len(members) < _MAX_MEMBERS:
        head = source.read(at, zr.LOCAL.size)
        if head[:4] == zr.CENTRAL_MARK:
            directory = at
            break
        if len(head) < zr.LOCAL.size or head[:4] != zr.LOCAL_MARK:
            break
        extra = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        local = zr.parse_local(head + source.read(at + zr.LOCAL.size, extra))
        if local is None:
            break
        name = zr.decode_name(local.raw_name, local.flags)
        start = at + local.length
        size = _size(source, local, name, start, sizes)
        if size is None or start + size > source.size:
            break
        descriptor = None
        if local.flags & zr.FLAG_DESCRIPTOR:
            descriptor = zr.parse_descriptor(source.read(start + size, 24), size)
            if descriptor is None or descriptor[1] != size:
                break
        members.append(
            Member(
                name=name,
                method=local.method,
                flags=local.flags,
                crc=descriptor[0] if descriptor else local.crc,
                other_crc=None,
                size=size,
                compressed_size=size,
                header_offset=at,
                start=start,
                end=start + size,
            )
        )
        at = start + size + (descriptor[2] if descriptor else 0)
        if name.endswith("/data.pkl"):
            _note_storages(source.read(start, size), name, sizes, owners)
    there = {member.name for member in members}
    whole = [t for name, tensors in owners.items() if name in there for t in tensors]
    lost = [t for name, tensors in owners.items() if name not in there for t in tensors]
    return Remains(
        members=tuple(members),
        cut_at=at,
        directory_start=directory,
        whole=tuple(whole),
        lost=tuple(lost),
    )


def _size(
    source: ByteSource, local: zr.LocalHeader, name: str, start: int, sizes: dict[str, int]
) -> int | None:
    """Return a member's size: from its header, its storage, its STOP, or its descriptor."""
    if local.method != zr.STORED:
        return None
    if not local.flags & zr.FLAG_DESCRIPTOR:
        return local.size
    if name in sizes:
        return sizes[name]
    if name.endswith("/data.pkl"):
        try:
            placed = read_pickle_at(source, start, "its pickle")
            return placed.end - placed.start
        except MalformedError:
            return None
    data = source.read(start, _SMALL_BYTES)
    at = data.find(zr.DESCRIPTOR_MARK)
    while at >= 0:
        found = zr.parse_descriptor(data[at : at + 24], at)
        if found is not None and found[1] == at and found[0] in (0, zlib.crc32(data[:at])):
            return at
        at = data.find(zr.DESCRIPTOR_MARK, at + 1)
    return None


def _note_storages(
    data: bytes, name: str, sizes: dict[str, int], owners: dict[str, list[str]]
) -> None:
    try:
        specs, _ = find_tensors(interpret(data))
    except MalformedError:
        return
    root = name.removesuffix("data.pkl")
    for spec in specs:
        if spec.storage is not None:
            member = f"{root}data/{spec.storage.key}"
            sizes[member] = spec.storage.num_bytes
            owners.setdefault(member, []).append(spec.name)
