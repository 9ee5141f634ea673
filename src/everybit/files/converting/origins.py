"""One pickle of a checkpoint and the places of its storages, whatever the format around it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.files.damage import malformed
from everybit.files.formats import torch_legacy, torch_tar
from everybit.files.formats.placing import Held, hold_member
from everybit.files.formats.torch_zip import find_root, read_pickle
from everybit.files.pickles.nodes import Blob, Call, Persistent, TupleNode
from everybit.files.pickles.opcodes import interpret
from everybit.files.pickles.stream import read_pickle_at
from everybit.files.pickles.torch_values import OddError, describe_storage
from everybit.files.tensor import FileFormat
from everybit.files.window import Window
from everybit.files.zips.archive import Member, read_archive
from everybit.files.zips.members import read_member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.files.pickles.nodes import Pickle
    from everybit.files.pickles.stream import Placed
    from everybit.files.pickles.torch_values import TensorSpec
    from everybit.files.source import ByteSource

_SMALL_RECORDS: Final = {
    "version": "archive_version",
    ".format_version": "format_version",
    ".data/serialization_id": "serialization_id",
}
_MAX_RECORD_BYTES: Final = 128
_FROM_BYTES: Final = "torch.storage._load_from_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A pickle, and where what it refers to lies in the file.

    Attributes:
        path: The file, relative to what is converted; "" for that itself.
        pickle: The pickle, followed to its end.
        record: Where it lies.
        held: Where each storage lies, by key.
        big_endian: Elements are stored big-endian.
        tensors: Tensors that the pickle refers to by a number, as torch 0.1 did.
        views: Storages that are part of another one: that one's key, and the offset in elements.
        is_script: It is a TorchScript archive: there is a program beside the pickle.
        facts: What the file says about its own format.
    """

    path: str
    pickle: Pickle
    record: Held
    held: Mapping[str, Held] = field(default_factory=dict)
    big_endian: bool = False
    tensors: Mapping[int, TensorSpec] = field(default_factory=dict)
    views: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    is_script: bool = False
    facts: Mapping[str, str | int] = field(default_factory=dict)


def read_origin(source: ByteSource, path: str, kind: FileFormat, *, base: int = 0) -> Origin:
    """Read the pickle of a file, and where its storages lie.

    Args:
        source: The file, or the part of it that is an archive of its own.
        path: What the origin calls it.
        kind: Its format.
        base: Where the part begins in its file, in bytes.

    Raises:
        MalformedError: A pickle in it is damaged.
        TooLargeError: A pickle in it is longer than this release reads.
    """
    if kind in (FileFormat.TORCH_ZIP, FileFormat.ZIP):
        return _from_zip(source, path, base)
    if kind is FileFormat.TORCH_LEGACY:
        legacy = torch_legacy.read_storages(source)
        return replace(_alone(path, legacy.record), held=legacy.places)
    if kind is FileFormat.TORCH_TAR:
        tar = torch_tar.read_contents(source)
        return replace(
            _alone(path, tar.record),
            held={str(key): place for key, place in tar.held.items()},
            tensors=tar.tensors,
            views={str(key): (str(root), at) for key, (root, at) in tar.views.items()},
        )
    return _with_nested(source, _alone(path, read_pickle_at(source, 0, "its pickle")))


def _with_nested(source: ByteSource, origin: Origin) -> Origin:
    """Return a bare pickle with the storages that stand in it as files of their own.

    A tensor that `pickle` itself wrote keeps its storage as the bytes of a `torch.save`.
    """
    held: dict[str, Held] = {}
    for call in origin.pickle.calls:
        args = call.arguments
        inner = args[0] if args and isinstance(args[0], Call) else None
        if inner is None or inner.name != _FROM_BYTES or not inner.arguments:
            continue
        blob = inner.arguments[0]
        if not isinstance(blob, Blob):
            raise PathError(
                "keeps its storages as text, as protocol 2 of pickle writes them",
                where=str(source.path),
                todo="load it where it was made, and save it with torch.save",
            )
        start = origin.record.start + blob.start
        found = torch_legacy.read_storages(Window(source, start, start + len(blob.data)))
        node = found.record.pickle.result
        try:
            place = found.places.get(describe_storage(node).key)
        except OddError as odd:
            raise malformed(
                f"storage in its pickle: {odd}", byte_range=(start, start + 1)
            ) from None
        key = f"at {start}"
        args[0] = Persistent(TupleNode([*node.id.items[:2], key, *node.id.items[3:]]))
        if place is not None:
            held[key] = replace(place, start=place.start + start, end=place.end + start)
    return replace(origin, held=held) if held else origin


def _alone(path: str, record: Placed) -> Origin:
    length = record.end - record.start
    return Origin(
        path=path,
        pickle=record.pickle,
        record=Held(label="its pickle", start=record.start, end=record.end, size=length),
        facts={"pickle_protocol": record.pickle.protocol},
    )


def _from_zip(source: ByteSource, path: str, base: int) -> Origin:
    archive = read_archive(source)
    root = find_root(archive.members)
    if root is None:
        raise malformed("has no pickle record")
    members = {}
    for member in reversed(archive.members):  # of two of the same name torch reads the first
        members[member.name] = member
    record = members[f"{root}data.pkl"]
    data, _ = read_pickle(source, record)
    prefix = f"{root}data/"
    facts: dict[str, str | int] = {}
    for name, fact in _SMALL_RECORDS.items():
        text = _small(source, members.get(root + name))
        if text:
            facts[fact] = text
    order = _small(source, members.get(f"{root}byteorder"))
    pickle = interpret(data)
    return Origin(
        path=path,
        pickle=pickle,
        record=hold_member(record, base),
        held={
            name.removeprefix(prefix): hold_member(member, base)
            for name, member in members.items()
            if name.startswith(prefix)
        },
        big_endian=order == "big",
        is_script=f"{root}constants.pkl" in members,
        facts={**facts, "pickle_protocol": pickle.protocol},
    )


def _small(source: ByteSource, record: Member | None) -> str:
    if record is None or not record.usable or record.size > _MAX_RECORD_BYTES:
        return ""
    return read_member(source, record, _MAX_RECORD_BYTES).decode("ascii", "replace").strip()
