"""The first `torch.save` format, of torch 0.1: a tar archive of four members.

`pickle` holds the object with an id in place of each tensor; `tensors` says for each id its
storage, shape, strides and offset; `storages` holds the elements, little-endian, each storage
behind a pickle of its key, device and type and a 64-bit count, and at its end a list of storages
that are views of others; `sys_info` says what machine it was.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.verdict import Skipped
from everybit.files.collection import paused_collection
from everybit.files.damage import Damage, MalformedError, malformed
from everybit.files.formats.placing import Held, place_tensor
from everybit.files.geometry import MAX_DIMENSIONS, STORED_ITEMSIZE
from everybit.files.pickles.nodes import ListNode, Node, Persistent, TupleNode
from everybit.files.pickles.plain import collect_plain
from everybit.files.pickles.stream import Placed, read_pickle_at
from everybit.files.pickles.torch_objects import find_tensors
from everybit.files.pickles.torch_values import Storage, TensorSpec, as_text, storage_dtype
from everybit.files.structure import Structure
from everybit.files.tar import TarMember, read_tar
from everybit.files.tensor import FileFormat, FileTensor

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

#: What such an archive holds, and no other does.
MEMBER_NAMES: Final = frozenset({"pickle", "tensors", "storages"})
#: Four members, and a pax header before each.
_MAX_HEADERS: Final = 16
_MAX_ITEMS: Final = 1_000_000
_MAX_DAMAGES: Final = 100
_COUNT_BYTES: Final = 8
#: Python's tarfile, which torch used, fills the last record with zeros.
_RECORD_BYTES: Final = 10240


@dataclass(slots=True)
class _Contents:
    """What is known so far: storages by key, and tensors by id."""

    held: dict[int, Held] = field(default_factory=dict)
    storages: dict[int, Storage] = field(default_factory=dict)
    tensors: dict[int, TensorSpec] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    cut: bool = False
    views: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a whole archive holds.

    Attributes:
        record: The pickle of the object.
        held: Where each storage lies, by key.
        tensors: The tensors that the pickle refers to, by id.
        views: Storages that are part of another: its key, and the offset in elements.
    """

    record: Placed
    held: dict[int, Held]
    tensors: dict[int, TensorSpec]
    views: dict[int, tuple[int, int]]


def read_contents(source: ByteSource) -> Contents:
    """Return the pickle of the object, its tensors and its storages, from a file that is whole.

    Raises:
        MalformedError: A member is damaged, or not there.
    """
    with paused_collection():
        listed, _ = read_tar(source, most=_MAX_HEADERS)
        members = {member.name: member for member in reversed(listed)}
        absent = sorted(MEMBER_NAMES - members.keys())
        if absent:
            raise malformed(f"has no member {absent[0]}")
        contents = _Contents()
        _read_storages(source, members["storages"], contents)
        _read_tensors(source, members["tensors"], contents)
        return Contents(
            record=_read_object(source, members),
            held=contents.held,
            tensors=contents.tensors,
            views=contents.views,
        )


def is_torch_tar(source: ByteSource) -> bool:
    """Return whether a tar archive is one that torch wrote, one name of it damaged or cut off."""
    members, _ = read_tar(source, most=_MAX_HEADERS)
    return len({member.name for member in members} & MEMBER_NAMES) >= len(MEMBER_NAMES) - 1


def read_object(source: ByteSource) -> Placed:
    """Return the pickle of the object alone.

    Raises:
        MalformedError: It is damaged, or not there.
    """
    members, _ = read_tar(source, most=_MAX_HEADERS)
    return _read_object(source, {member.name: member for member in reversed(members)})


def _read_object(source: ByteSource, members: dict[str, TarMember]) -> Placed:
    member = members.get("pickle")
    if member is None:
        raise malformed("has no member pickle")
    return read_pickle_at(source, member.start, "its object's pickle", limit=member.end)


def read_structure(source: ByteSource) -> Structure:
    """Read and check the members, and where each tensor lies.

    Raises:
        MalformedError: A pickle is damaged (FIL107), or the file ends within one (FIL104).
    """
    with paused_collection():
        listed, damages = read_tar(source, most=_MAX_HEADERS)
        members = {member.name: member for member in reversed(listed)}
        if len(members) < len(listed) and not damages:
            # Loaders take the last one, other tools the first.
            again = next(m for m in listed if members[m.name] is not m)
            what = f"member {again.name} stands twice"
            damages.append(_damage(what, again.start, again.end, again.name))
        contents = _Contents()
        absent = sorted(MEMBER_NAMES - members.keys())
        if absent and not damages:
            damages.append(_damage(f"has no member {absent[0]}", 0, source.size, absent[0]))
        elif source.size % _RECORD_BYTES and not damages:
            damages.append(_cut_padding(source))
        if absent:
            return Structure(
                format=FileFormat.TORCH_TAR, damages=tuple(damages), values_whole=False
            )
        try:
            _read_storages(source, members["storages"], contents)
            _read_tensors(source, members["tensors"], contents)
            record = _read_object(source, members)
        except MalformedError as error:
            contents.damages.append(error.damage)
            found = _finished(source, damages, contents, [], [])
            return replace(found, values_whole=False)
        values, values_whole = collect_plain(record.pickle)
        found = _placed(source, damages, contents, record)
        return replace(found, values=values, values_whole=values_whole)


def _cut_padding(source: ByteSource) -> Damage:
    end = -(-source.size // _RECORD_BYTES) * _RECORD_BYTES
    return Damage(
        rule="FIL104",
        message=f"ends after {source.size} of {end} bytes",
        where=Location(byte_range=(source.size, end)),
        evidence={
            "size_bytes": source.size, "expected_bytes": end, "promised_by": "its tar records",
        },
    )  # fmt: skip


def _placed(
    source: ByteSource, damages: list[Damage], contents: _Contents, record: Placed
) -> Structure:
    unknown: list[str] = []

    def outside(node: Persistent) -> TensorSpec | None:
        key = _key(node.id)
        if key is None:  # a class of modules, with its source code
            return None
        if key in contents.tensors:
            return contents.tensors[key]
        storage = contents.storages.get(key)
        if storage is None:
            unknown.append(str(key))
            return None
        count = storage.num_bytes // STORED_ITEMSIZE[storage.dtype]
        return TensorSpec(
            name="", dtype=storage.dtype, shape=(count,), stride=(1,), storage=storage
        )

    specs, notes = find_tensors(record.pickle, outside)
    pickle = Held(
        label="its pickle",
        member="pickle",
        start=record.start,
        end=record.end,
        size=record.end - record.start,
    )
    tensors: list[FileTensor] = []
    skipped = [Skipped(what="some tensor names", why=note, promised=False) for note in notes]
    for spec in specs:
        held = contents.held.get(int(spec.storage.key)) if spec.storage else None
        placed = place_tensor(spec, held, pickle)
        if isinstance(placed, FileTensor):
            tensors.append(placed)
        elif isinstance(placed, Damage):
            contents.damages.append(placed)
        else:
            skipped.append(Skipped(what=f"tensor {spec.name}", why=placed))
    if unknown and not contents.cut:
        message = f"tensor {unknown[0]} of its object is not in the archive"
        contents.damages.append(_damage(message, record.start, record.end, "pickle"))
    return _finished(source, damages, contents, tensors, skipped)


def _finished(
    source: ByteSource,
    damages: list[Damage],
    contents: _Contents,
    tensors: list[FileTensor],
    skipped: list[Skipped],
) -> Structure:
    """Return the structure; a cut is told once, with what lies wholly before it."""
    tensors.sort(key=lambda tensor: (tensor.byte_ranges[:1], tensor.name))
    cut = next((damage for damage in damages if damage.rule == "FIL104"), None)
    if cut is not None:
        whole = [t.name for t in tensors if all(end <= source.size for _, end in t.byte_ranges)]
        message = f"{cut.message}; {len(whole)} of {len(tensors)} tensors lie wholly before the cut"
        evidence = {**cut.evidence, "readable": whole, "num_lost": len(tensors) - len(whole)}
        found = [replace(cut, message=message if tensors else cut.message, evidence=evidence)]
    else:
        found = [*damages, *contents.damages]
    return Structure(
        format=FileFormat.TORCH_TAR,
        tensors=tuple(tensors),
        damages=tuple(found[:_MAX_DAMAGES]),
        skipped=tuple(skipped),
    )


def _read_storages(source: ByteSource, member: TarMember, contents: _Contents) -> None:
    first = _pickle(source, member, member.start, "the number of its storages")
    at = first.end
    for index in range(_count(first, member)):
        if at >= source.size:
            contents.cut = True
            return
        placed = _pickle(source, member, at, f"the record of storage {index}")
        key, location, kind = _three(placed, f"the record of storage {index}")
        dtype = storage_dtype(kind)
        number = _key(key)
        if dtype is None or number is None:
            raise _wrong(f"the record of storage {index} is none that torch writes", placed)
        start = placed.end + _COUNT_BYTES
        count = int.from_bytes(source.read(placed.end, _COUNT_BYTES), "little", signed=True)
        end = start + count * STORED_ITEMSIZE[dtype]
        if count < 0 or end > member.end:
            message = f"the count of storage {index} says {count} elements, more than there are"
            raise malformed(message, member="storages", byte_range=(placed.end, start))
        place = as_text(location)
        contents.held[number] = Held(
            label=f"storage {number}", member="storages", start=start, end=end, size=end - start
        )
        contents.storages[number] = Storage(
            key=str(number),
            dtype=dtype,
            num_bytes=end - start,
            location=place if isinstance(place, str) else "",
        )
        at = end
    if at >= source.size:
        contents.cut = True
        return
    views = _pickle(source, member, at, "the list of views of its storages")
    _add_views(views, contents)
    if views.end != member.end:
        message = f"{member.end - views.end} bytes follow its last storage"
        contents.damages.append(_damage(message, views.end, member.end, "storages"))


def _add_views(placed: Placed, contents: _Contents) -> None:
    node = placed.pickle.result
    for view in node.items if isinstance(node, ListNode) else []:
        parts = view.items if isinstance(view, TupleNode | ListNode) else []
        numbers = [item for item in parts if isinstance(item, int) and item.bit_length() <= 64]
        if len(numbers) != 4 or numbers[1] not in contents.held or min(numbers[2:]) < 0:
            raise _wrong("the list of views of its storages is none that torch writes", placed)
        target, root, offset, count = numbers
        whole = contents.storages[root]
        size = STORED_ITEMSIZE[whole.dtype]
        start = contents.held[root].start + offset * size
        end = start + count * size
        if end > contents.held[root].end:
            raise _wrong("a view of a storage reaches beyond it", placed)
        contents.held[target] = replace(contents.held[root], start=start, end=end, size=end - start)
        contents.storages[target] = replace(whole, key=str(target), num_bytes=end - start)
        first, before = contents.views.get(root, (root, 0))
        contents.views[target] = (first, before + offset)


def _read_tensors(source: ByteSource, member: TarMember, contents: _Contents) -> None:
    first = _pickle(source, member, member.start, "the number of its tensors")
    at = first.end
    for index in range(_count(first, member)):
        placed = _pickle(source, member, at, f"the record of tensor {index}")
        key, storage, _ = _three(placed, f"the record of tensor {index}")
        number, owner = _key(key), _key(storage)
        if number is None or owner is None:
            raise _wrong(f"the record of tensor {index} is none that torch writes", placed)
        dims = int.from_bytes(source.read(placed.end, 4), "little", signed=True)
        end = placed.end + 8 + 16 * max(dims, 0) + 8
        if not 0 <= dims <= MAX_DIMENSIONS or end > min(member.end, source.size):
            message = f"the record of tensor {index} says {dims} dimensions"
            raise malformed(message, member="tensors", byte_range=(placed.end, placed.end + 4))
        raw = source.read(placed.end + 8, 16 * dims + 8)
        numbers = struct.unpack(f"<{2 * dims + 1}q", raw)
        at = end
        known = contents.storages.get(owner)
        if known is None:
            if not contents.cut:
                raise _wrong(f"storage {owner} of tensor {index} is not in the archive", placed)
            continue
        contents.tensors[number] = TensorSpec(
            name="",
            dtype=known.dtype,
            shape=numbers[:dims],
            stride=numbers[dims : 2 * dims],
            offset=numbers[-1],
            storage=known,
        )
    if at != member.end:
        message = f"{member.end - at} bytes follow its last tensor"
        contents.damages.append(_damage(message, at, member.end, "tensors"))


def _pickle(source: ByteSource, member: TarMember, at: int, what: str) -> Placed:
    return read_pickle_at(source, at, what, limit=member.end)


def _count(placed: Placed, member: TarMember) -> int:
    count = placed.pickle.result
    room = (member.end - member.start) // 8
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= room:
        raise _wrong(f"the number at the start of {member.name} cannot be one", placed)
    return min(count, _MAX_ITEMS)


def _three(placed: Placed, what: str) -> list[Node]:
    node = placed.pickle.result
    if not isinstance(node, TupleNode) or len(node.items) != 3:
        raise _wrong(f"{what} is none that torch writes", placed)
    return node.items


def _key(node: Node) -> int | None:
    """Return a key of torch 0.1, an address as a number or as its digits; None for others."""
    node = as_text(node)
    if isinstance(node, str):
        return int(node) if node.isdecimal() and len(node) <= 20 else None
    return node if isinstance(node, int) and node.bit_length() <= 64 else None


def _wrong(message: str, placed: Placed) -> MalformedError:
    return malformed(message, byte_range=(placed.start, placed.end))


def _damage(message: str, start: int, end: int, member: str) -> Damage:
    where = Location(member=member, byte_range=(start, end))
    return Damage(rule="FIL107", message=message, where=where)
