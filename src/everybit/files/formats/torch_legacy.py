"""The `torch.save` format before 1.6: five pickles, then the storages end to end.

The pickles are the magic number, the protocol, facts about the machine, the object, and the keys of
its storages in the order in which they follow: each a 64-bit count of elements and the elements,
little-endian on every machine. Nothing carries a checksum; the counts are held against what the
object's pickle says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.verdict import Skipped
from everybit.files.collection import paused_collection
from everybit.files.damage import Damage, MalformedError, TooLargeError, cut_short
from everybit.files.formats.placing import Held, place_tensor
from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.pickles.nodes import DictNode, ListNode
from everybit.files.pickles.plain import collect_plain
from everybit.files.pickles.stream import Placed, read_pickle_at
from everybit.files.pickles.torch_objects import find_tensors
from everybit.files.pickles.torch_values import OddError, Storage, as_text, describe_storage
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat, FileTensor

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Node, Pickle
    from everybit.files.pickles.torch_values import TensorSpec
    from everybit.files.source import ByteSource

MAGIC: Final = 0x1950A86A20F9469CFC6C
_PROTOCOL: Final = 1001
_COUNT_BYTES: Final = 8
_MAX_DAMAGES: Final = 100
_SIZES_OF_C: Final = {"short": (2,), "int": (4,), "long": (4, 8)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Storages:
    """The storages that follow the pickles: where each is, and up to where they reach."""

    places: dict[str, Held]
    end: int
    damages: list[Damage]


def read_structure(source: ByteSource) -> Structure:
    """Read and check the pickles, and where each tensor lies.

    Raises:
        MalformedError: A pickle is damaged (FIL107), or the file ends within one (FIL104).
        TooLargeError: The object's pickle is longer than this release reads.
    """
    with paused_collection():
        return _read(source)


def read_object(source: ByteSource) -> Placed:
    """Return the pickle of the object alone.

    Raises:
        MalformedError: A pickle is damaged, or the file ends within one.
    """
    return read_pickle_at(source, _check_head(source, []), "its object's pickle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The pickle of the object, and where each of its storages lies, by key."""

    record: Placed
    places: dict[str, Held]


def read_storages(source: ByteSource) -> Contents:
    """Return the pickle of the object and the places of its storages, from a file that is whole.

    Raises:
        MalformedError: A pickle or a storage's count is damaged, or the file ends too early.
    """
    with paused_collection():
        record = read_object(source)
        keys = read_pickle_at(source, record.end, "the list of its storages")
        found = _walk_storages(source, keys, _known_storages(record.pickle))
        if found.damages:
            raise MalformedError(found.damages[0])
        return Contents(record=record, places=found.places)


def _read(source: ByteSource) -> Structure:
    damages: list[Damage] = []
    at = _check_head(source, damages)
    record = read_pickle_at(source, at, "its object's pickle")
    keys = read_pickle_at(source, record.end, "the list of its storages")
    specs, notes = find_tensors(record.pickle)
    storages = _walk_storages(source, keys, _known_storages(record.pickle))
    damages += storages.damages
    held_pickle = Held(
        label="its pickle", start=record.start, end=record.end, size=record.end - record.start
    )
    tensors: list[FileTensor] = []
    skipped = [Skipped(what="some tensor names", why=note, promised=False) for note in notes]
    for spec in specs:
        held = storages.places.get(spec.storage.key) if spec.storage else None
        if held is None and _has_bytes(spec) and storages.damages:
            # The storages could not be followed that far; the damage that ended it is told.
            continue
        placed = place_tensor(spec, held, held_pickle)
        if isinstance(placed, FileTensor):
            tensors.append(placed)
        elif isinstance(placed, Damage):
            damages.append(placed)
        else:
            skipped.append(Skipped(what=f"tensor {spec.name}", why=placed))
    tensors.sort(key=lambda tensor: (tensor.byte_ranges[:1], tensor.name))
    damages += _check_end(source, storages, tensors, specs, skipped)
    values, values_whole = collect_plain(record.pickle)
    return Structure(
        format=FileFormat.TORCH_LEGACY,
        tensors=tuple(tensors),
        damages=tuple(damages[:_MAX_DAMAGES]),
        skipped=tuple(skipped),
        order=tuple(spec.name for spec in specs),
        values=values,
        values_whole=values_whole,
    )


def _has_bytes(spec: TensorSpec) -> bool:
    return spec.storage is not None and spec.storage.num_bytes > 0


def _check_head(source: ByteSource, damages: list[Damage]) -> int:
    """Check magic number, protocol and facts about the machine; return where these end."""
    checks = (
        ("its magic number", lambda node: node == MAGIC),
        ("its protocol number", lambda node: node == _PROTOCOL),
        ("its record of the machine", _is_machine),
    )
    at = 0
    for what, holds in checks:
        placed = read_pickle_at(source, at, what)
        if not holds(placed.pickle.result):
            damages.append(
                Damage(
                    rule="FIL107",
                    message=f"{what} is not what torch writes",
                    where=Location(byte_range=(placed.start, placed.end)),
                )
            )
        at = placed.end
    return at


def _is_machine(node: Node) -> bool:
    """Return whether a node is `sys_info`; the byte order in it says nothing about the elements."""
    facts = _plain_dict(node)
    sizes = _plain_dict(facts.pop("type_sizes", None))
    return (
        facts.keys() == {"protocol_version", "little_endian"}
        and facts["protocol_version"] == _PROTOCOL
        and isinstance(facts["little_endian"], bool)
        and sizes.keys() == _SIZES_OF_C.keys()
        and all(sizes[name] in allowed for name, allowed in _SIZES_OF_C.items())
    )


def _plain_dict(node: Node) -> dict[str, Node]:
    pairs = node.pairs if isinstance(node, DictNode) else []
    named = [(as_text(key), value) for key, value in pairs]
    return {key: value for key, value in named if isinstance(key, str)}


def _known_storages(pickle: Pickle) -> dict[str, Storage]:
    """Return every storage that the object's pickle refers to, by key, as first described."""
    known: dict[str, Storage] = {}
    for node in pickle.persistents:
        try:
            storage = describe_storage(node)
        except OddError:
            continue
        known.setdefault(storage.key, storage)
    return known


def _walk_storages(source: ByteSource, keys: Placed, known: dict[str, Storage]) -> _Storages:
    places: dict[str, Held] = {}
    damages: list[Damage] = []
    node = keys.pickle.result
    listed = [as_text(key) for key in node.items] if isinstance(node, ListNode) else None
    if listed is None or not all(isinstance(key, str) for key in listed):
        return _Storages(
            places=places,
            end=keys.end,
            damages=[_damage("the list of its storages is no list of keys", keys.start, keys.end)],
        )
    at = keys.end
    wrong: list[int] = []
    for index, key in enumerate(listed):
        storage = known.get(key)
        if storage is None or key in places:
            problem = "stands twice" if key in places else "is not in its object"
            message = f"storage {key[:80]} {problem}, though the list of its storages has it"
            damages.append(_damage(message, keys.start, keys.end))
            break
        start = at + _COUNT_BYTES
        end = start + storage.num_bytes
        if start <= source.size:
            problem = _count_problem(source, at, storage, index)
            if problem:
                wrong.append(index)
            if problem and not damages:
                # Once bytes are lost or too many, every count after them reads wrong.
                damages.append(_damage(problem, at, start))
        label = f"storage {key}"
        places[key] = Held(label=label, start=start, end=end, size=storage.num_bytes)
        at = end
    if wrong and at != source.size:
        # Bytes are missing or too many in the storage before the first wrong count.
        for key in listed[max(0, wrong[0] - 1) :]:
            if key in places:
                places[key] = replace(places[key], unplaced=True)
    absent = [key for key, storage in known.items() if key not in places and storage.num_bytes]
    if absent and not damages:
        message = f"storage {absent[0][:80]} of its object is not in the list of its storages"
        damages.append(_damage(message, keys.start, keys.end))
    return _Storages(places=places, end=at, damages=damages)


def _count_problem(source: ByteSource, at: int, storage: Storage, index: int) -> str:
    wanted = storage.num_bytes // STORED_ITEMSIZE[storage.dtype]
    found = int.from_bytes(source.read(at, _COUNT_BYTES), "little", signed=True)
    if found == wanted:
        return ""
    return (
        f"the count before storage {storage.key} (number {index}) says {found} elements, "
        f"its object {wanted}"
    )


def _damage(message: str, start: int, end: int) -> Damage:
    return Damage(rule="FIL107", message=message, where=Location(byte_range=(start, end)))


def _check_end(
    source: ByteSource,
    storages: _Storages,
    tensors: list[FileTensor],
    specs: list[TensorSpec],
    skipped: list[Skipped],
) -> list[Damage]:
    """Return what is wrong with the file's size: cut, or followed by bytes that are not its own."""
    if storages.end > source.size and not storages.damages:
        whole = [
            tensor.name
            for tensor in tensors
            if all(end <= source.size for _, end in tensor.byte_ranges)
        ]
        return [
            cut_short(
                f"ends after {source.size} of {storages.end} bytes; "
                f"{len(whole)} of {len(specs)} tensors lie wholly before the cut",
                source.size,
                storages.end,
                "its pickles",
                readable=whole,
                num_lost=len(specs) - len(whole),
            )
        ]
    if storages.end == source.size or storages.damages:
        return []
    left = source.size - storages.end
    if _another_save(source, storages.end):
        why = f"a second save follows the first in the same file, in its last {left} bytes"
        skipped.append(Skipped(what=f"bytes from {storages.end} on", why=why))
        return []
    return [_damage(f"{left} bytes follow its last storage", storages.end, source.size)]


def _another_save(source: ByteSource, start: int) -> bool:
    try:
        return bool(read_pickle_at(source, start, "a second save").pickle.result == MAGIC)
    except (MalformedError, TooLargeError):
        return False
