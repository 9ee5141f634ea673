"""The `.metadata` of a DCP folder: which tensors it holds, in which files and at which offsets.

A pickle of torch's `Metadata` and its parts, read by the interpreter into plain values: nothing is
called. Whether it is right in itself is checked here: the chunks of every tensor fill it, and each
has its place in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.files.boxes import tiling_problem
from everybit.files.collection import paused_collection
from everybit.files.damage import Damage, malformed
from everybit.files.geometry import STORED_ITEMSIZE, shape_problem
from everybit.files.pickles.nodes import Call, DictNode, Global, ListNode, Node, TupleNode
from everybit.files.pickles.stream import read_pickle_at
from everybit.files.pickles.torch_values import OddError, sizes_of
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

METADATA_NAME: Final = ".metadata"
#: What stands near the start of such a pickle, whatever its protocol.
METADATA_MODULE: Final = b"torch.distributed.checkpoint.metadata"
_MAX_PROBLEMS: Final = 16
_MAX_TEXT: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class DcpTensor:
    """A tensor: its dtype, its shape, and the offset and shape of each of its chunks."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DcpEntry:
    """A place in a file.

    Attributes:
        name: Whose it is, as the state dict calls it.
        offset: Where the chunk begins in its tensor; None for an entry of bytes.
        path: The file, relative to the folder.
        start: First byte in it.
        end: Last byte, excluded.
        transforms: Compression and the like that it went through.
    """

    name: str
    offset: tuple[int, ...] | None
    path: str
    start: int
    end: int
    transforms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DcpMetadata:
    """What a `.metadata` says.

    Attributes:
        tensors: By name.
        entries: Every place, in the order of the pickle.
        save_id: Id of the save, "" where it has none.
        version: Version of the format, "" where it says none.
        paths: The path of keys that each name stands for, where the planner kept them.
        damages: What in it cannot be right.
    """

    tensors: dict[str, DcpTensor] = field(default_factory=dict)
    entries: tuple[DcpEntry, ...] = ()
    save_id: str = ""
    version: str = ""
    paths: dict[str, tuple[str | int, ...]] = field(default_factory=dict)
    damages: tuple[Damage, ...] = ()

    def chunk_shape(self, entry: DcpEntry) -> tuple[int, ...] | None:
        """Return the shape of the chunk that an entry holds; None where it is no tensor's."""
        tensor = self.tensors.get(entry.name)
        if tensor is None or entry.offset is None:
            return None
        return next((size for offset, size in tensor.chunks if offset == entry.offset), None)


def read_structure(source: ByteSource) -> Structure:
    """Read and check a `.metadata` file.

    Raises:
        MalformedError: It is no pickle of a `Metadata` (FIL107), or cut (FIL104).
    """
    found = read_metadata(source)
    return Structure(format=FileFormat.DCP_METADATA, damages=found.damages)


def read_metadata(source: ByteSource) -> DcpMetadata:
    """Read a `.metadata` file into plain values.

    Raises:
        MalformedError: It is no pickle of a `Metadata` (FIL107), or cut (FIL104).
    """
    with paused_collection():
        placed = read_pickle_at(source, 0, "its pickle")
        fields = _fields(placed.pickle.result, "Metadata")
        if fields is None or not isinstance(fields.get("state_dict_metadata"), DictNode):
            raise malformed("its pickle is no DCP metadata", byte_range=(0, placed.end))
        damages: list[str] = []
        tensors, bytes_names = _read_tensors(fields["state_dict_metadata"], damages)
        entries = _read_entries(fields.get("storage_data"), damages)
        _check_places(tensors, bytes_names, entries, damages)
        _check_overlaps(entries, damages)
        _check_paths(fields.get("planner_data"), tensors.keys() | bytes_names, damages)
        if placed.end != source.size:
            damages.append(f"{source.size - placed.end} bytes follow its pickle")
        meta = _fields(fields.get("storage_meta"), "StorageMeta") or {}
        where = Location(byte_range=(0, placed.end))
        return DcpMetadata(
            tensors=tensors,
            entries=tuple(entries),
            save_id=_text(meta.get("save_id")),
            version=_text(fields.get("version")),
            paths=_read_paths(fields.get("planner_data")),
            damages=_as_one(damages, where),
        )


def _as_one(problems: list[str], where: Location) -> tuple[Damage, ...]:
    """Return one damage for all that is wrong: a flipped bit contradicts many places at once."""
    if not problems:
        return ()
    more = f", and {len(problems) - 1} more problems" if len(problems) > 1 else ""
    return (
        Damage(
            rule="FIL107",
            message=f"{problems[0]}{more}",
            where=where,
            evidence={"problems": problems[:_MAX_PROBLEMS], "num_problems": len(problems)},
        ),
    )


def _fields(node: Node, kind: str) -> dict[str, Node] | None:
    """Return the fields of a pickled dataclass of that name; None for anything else."""
    if not isinstance(node, Call) or node.name.rpartition(".")[2] != kind:
        return None
    state = node.state
    if isinstance(state, TupleNode) and len(state.items) == 2:  # (state, slots)
        state = state.items[1]
    pairs = state.pairs if isinstance(state, DictNode) else []
    return {key: value for key, value in pairs if isinstance(key, str)}


def _items(node: Node) -> list[Node]:
    return node.items if isinstance(node, ListNode | TupleNode) else []


def _text(node: Node) -> str:
    return node[:_MAX_TEXT] if isinstance(node, str) else ""


def _read_tensors(node: DictNode, damages: list[str]) -> tuple[dict[str, DcpTensor], set[str]]:
    tensors: dict[str, DcpTensor] = {}
    others: set[str] = set()
    for key, value in node.pairs:
        name = _text(key)
        if _fields(value, "BytesStorageMetadata") is not None:
            others.add(name)
            continue
        fields = _fields(value, "TensorStorageMetadata")
        if fields is None:
            damages.append(f"{name or 'a key'} is neither a tensor nor bytes")
            continue
        try:
            tensors[name] = _read_tensor(fields)
        except OddError as odd:
            damages.append(f"tensor {name}: {odd}")
    return tensors, others


def _read_tensor(fields: dict[str, Node]) -> DcpTensor:
    properties = fields.get("properties")
    state = properties.state if isinstance(properties, Call) else None
    if isinstance(state, DictNode):  # torch before 2.0 pickled the fields by name
        kind = {k: v for k, v in state.pairs if isinstance(k, str)}.get("dtype")
    else:
        kind = state.items[0] if isinstance(state, TupleNode) and state.items else None
    if not isinstance(kind, Global) or kind.name not in STORED_ITEMSIZE:
        raise OddError("its dtype is not known to this release")
    shape = sizes_of(fields.get("size"))
    problem = shape_problem(shape)
    if problem:
        raise OddError(problem)
    pieces = []
    for chunk in _items(fields.get("chunks")):
        piece = _fields(chunk, "ChunkStorageMetadata")
        if piece is None:
            raise OddError("a chunk of it is none")
        pieces.append((sizes_of(piece.get("offsets")), sizes_of(piece.get("sizes"))))
    return DcpTensor(dtype=kind.name, shape=shape, chunks=tuple(pieces))


def _read_entries(node: Node, damages: list[str]) -> list[DcpEntry]:
    entries = []
    for key, value in node.pairs if isinstance(node, DictNode) else []:
        index, info = _fields(key, "MetadataIndex"), _fields(value, "_StorageInfo")
        if index is None or info is None:
            damages.append("an entry of its table of places is none that torch writes")
            continue
        try:
            entries.append(_read_entry(index, info))
        except OddError as odd:
            damages.append(f"the place of {_text(index.get('fqn'))}: {odd}")
    return entries


def _read_entry(index: dict[str, Node], info: dict[str, Node]) -> DcpEntry:
    start, length = sizes_of(ListNode([info.get("offset"), info.get("length")]))
    path = _text(info.get("relative_path"))
    inside = PurePosixPath(path)
    if not path or inside.is_absolute() or ".." in inside.parts or "\0" in path:
        raise OddError("its file does not lie in the folder")
    if start < 0 or length < 0:
        raise OddError(f"a range of {length} bytes from {start} on")
    offset = index.get("offset")
    listed = _items(info.get("transform_descriptors"))
    return DcpEntry(
        name=_text(index.get("fqn")),
        offset=None if offset is None else sizes_of(offset),
        path=path,
        start=start,
        end=start + length,
        transforms=tuple(_text(each) for each in listed),
    )


def _check_places(
    tensors: dict[str, DcpTensor],
    bytes_names: set[str],
    entries: list[DcpEntry],
    damages: list[str],
) -> None:
    """Check that the chunks of each tensor fill it, and that each has a place."""
    placed = {(entry.name, entry.offset) for entry in entries}
    for name, tensor in tensors.items():
        problem = tiling_problem(tensor.shape, tensor.chunks)
        if problem:
            damages.append(f"tensor {name}: {problem}")
            continue
        for offset, _ in tensor.chunks:
            if (name, offset) not in placed:
                damages.append(f"tensor {name}: its chunk at {list(offset)} has no place in a file")
                break
    damages += [
        f"{name} has no place in a file"
        for name in sorted(bytes_names)
        if (name, None) not in placed
    ]
    known = tensors.keys() | bytes_names
    damages += [f"{e.name} has a place and is not listed" for e in entries if e.name not in known]


def _check_paths(node: Node, names: set[str], damages: list[str]) -> None:
    """Hold each name against the path of keys that it stands for, where the planner kept them."""
    pairs = node.pairs if isinstance(node, DictNode) else []
    if not pairs or not all(isinstance(path, TupleNode) for _, path in pairs):
        return
    listed = set()
    for key, path in pairs:
        name = _text(key)
        listed.add(name)
        keys = [str(item) for item in path.items if isinstance(item, str | int)]
        if len(keys) == len(path.items) and ".".join(keys)[:_MAX_TEXT] != name:
            damages.append(f"{name} stands for the path {'.'.join(keys)[:200]}")
    for name in sorted(listed ^ names)[:3]:
        lacking = "no path of keys" if name in names else "a path of keys and no entry"
        damages.append(f"{name} has {lacking}")


def _read_paths(node: Node) -> dict[str, tuple[str | int, ...]]:
    """Return the path of keys that each name stands for; empty where the planner kept none."""
    found: dict[str, tuple[str | int, ...]] = {}
    for key, path in node.pairs if isinstance(node, DictNode) else []:
        items = path.items if isinstance(path, TupleNode) else []
        keys = tuple(item for item in items if type(item) in (str, int))
        if not keys or len(keys) != len(items):
            return {}
        found[_text(key)] = keys
    return found


def _check_overlaps(entries: list[DcpEntry], damages: list[str]) -> None:
    reach: dict[str, tuple[int, str]] = {}
    for entry in sorted(entries, key=lambda each: (each.path, each.start, each.end)):
        end, owner = reach.get(entry.path, (0, ""))
        if entry.start < end:
            damages.append(f"{owner} and {entry.name} overlap in {entry.path}")
        if entry.end > end:
            reach[entry.path] = (entry.end, entry.name)
