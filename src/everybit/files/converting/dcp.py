"""A DCP folder as one tree: chunks put together, values read, keys as the save had them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import DamagedError, PathError
from everybit.files.converting.checking import read_whole, refuse_hostile
from everybit.files.converting.trees import encode_pickle
from everybit.files.damage import Damage, MalformedError
from everybit.files.formats.dcp_metadata import METADATA_NAME, DcpEntry, DcpMetadata, read_metadata
from everybit.files.formats.distcp import read_entries
from everybit.files.model_found import part_of
from everybit.files.source import ByteSource
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat
from everybit.files.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.files.converting.trees import Document
    from everybit.files.parts import Part

_MAX_PATH: Final = 48
_MAX_LIST: Final = 1_000_000
_Key = tuple[str, tuple[int, ...]]


def read_dcp(document: Document, progress: Callable[[int], None]) -> None:
    """Read a DCP folder into a document.

    Raises:
        PathError: A file cannot be read, or holds what this release cannot carry over.
        DamagedError: A file is damaged, missing or hostile; names the rule.
    """
    folder = document.unit.root
    place = folder / METADATA_NAME
    metadata = _metadata(document, place, progress)
    parts: dict[_Key, Part] = {}
    values: dict[str, Any] = {}
    for path in sorted({entry.path for entry in metadata.entries}):
        if not (folder / path).is_file():
            raise DamagedError(
                f"is missing; {METADATA_NAME} lists it",
                rule="FIL103",
                where=str(folder / path),
                todo="fetch it from where the checkpoint came from",
            )
        with ByteSource(folder / path) as source:
            _read_file(document, source, metadata, path, parts, values, progress)
            if source.changed():
                raise PathError("changed while it was read", where=str(folder / path))
    for name, tensor in metadata.tensors.items():
        held = tuple(parts[name, offset] for offset, _ in tensor.chunks if (name, offset) in parts)
        if len(held) != len(tensor.chunks) or any(part.tensor.unreadable for part in held):
            raise document.found.refuse(f"a chunk of tensor {name} cannot be read")
        view = document.found.joined(name, tensor.dtype, tensor.shape, held)
        values[name] = {"$tensor": view.name}
    document.facts["format"] = str(FileFormat.DISTCP)
    if metadata.version:
        document.facts["format_version"] = metadata.version
    order = [name for name in metadata.paths if name in values] or list(values)
    document.tree = _nest(
        {name: values[name] for name in [*order, *(n for n in values if n not in set(order))]},
        metadata.paths,
        place,
    )


def _metadata(document: Document, place: Path, progress: Callable[[int], None]) -> DcpMetadata:
    if not place.is_file():
        raise DamagedError(
            f"holds .distcp files and no {METADATA_NAME}, which is written last",
            rule="FIL103",
            where=str(place.parent),
            todo="fetch it again, hidden files too",
        )
    with ByteSource(place) as source:
        document.findings += refuse_hostile(source, place, METADATA_NAME)
        try:
            metadata = read_metadata(source)
        except MalformedError as error:
            raise error.damage.error(place) from None
        structure = Structure(format=FileFormat.DCP_METADATA, damages=metadata.damages)
        document.files.append(read_whole(source, structure, METADATA_NAME, progress))
    if metadata.damages:
        raise metadata.damages[0].error(place)
    return metadata


def _read_file(
    document: Document,
    source: ByteSource,
    metadata: DcpMetadata,
    path: str,
    parts: dict[_Key, Part],
    values: dict[str, Any],
    progress: Callable[[int], None],
) -> None:
    """Read every entry of one file: chunks as parts of tensors, values as trees."""
    document.findings += refuse_hostile(source, source.path, path)
    entries, damages, skipped = read_entries(source, metadata, path)
    damages += [damage for each in entries for damage in each.structure.damages]
    if damages:
        raise damages[0].error(source.path)
    skipped += [item for each in entries for item in each.structure.skipped if item.promised]
    if skipped:
        raise document.found.refuse(f"{path}: {skipped[0].what}: {skipped[0].why}")
    members = tuple(member for each in entries for member in each.structure.members)
    filled = [member for member in members if member.size]
    checked = Structure(
        format=FileFormat.DISTCP,
        tensors=tuple(tensor for each in entries for tensor in each.structure.tensors),
        members=members,
        has_checksums=not filled or 2 * sum(m.crc != 0 for m in filled) > len(filled),
    )
    document.files.append(read_whole(source, checked, path, progress))
    for each in entries:
        if each.listed is None:
            continue
        if each.listed.offset is not None:
            for tensor in each.structure.tensors:
                key = (each.listed.name, each.listed.offset)
                parts[key] = part_of(tensor, path, each.listed.offset)
            continue
        values[each.listed.name] = _value(document, source, path, each.listed)


def _value(document: Document, source: ByteSource, path: str, entry: DcpEntry) -> Any:
    """Return the tree of a value that is no tensor: an archive of its own."""
    window = Window(source, entry.start, entry.end)
    return encode_pickle(document, window, path, FileFormat.TORCH_ZIP, entry.name, base=entry.start)


def _nest(values: dict[str, Any], paths: dict[str, tuple[str | int, ...]], place: Path) -> Any:
    """Return the tree of dictionaries and lists that the names stand for, as torch rebuilds it."""
    root: dict[str | int, Any] = {}
    for name, value in values.items():
        keys = paths.get(name, (name,))
        if len(keys) > _MAX_PATH or any(type(k) is int and not 0 <= k < _MAX_LIST for k in keys):
            raise Damage(rule="FIL107", message=f"{name[:80]} has an impossible path").error(place)
        node = root
        for key in keys[:-1]:
            node = node.setdefault(key, _Branch())
            if not isinstance(node, _Branch):
                message = f"{name[:80]} lies below something that is no table"
                raise Damage(rule="FIL107", message=message).error(place)
        node[keys[-1]] = value
    return _as_tree(_Branch(root))


class _Branch(dict[str | int, Any]):
    """Keys and what lies below each."""


def _as_tree(node: Any) -> Any:
    if not isinstance(node, _Branch):
        return node
    if node and all(isinstance(key, int) for key in node):
        # A list; what was not saved stays empty.
        items = [None] * (max(int(key) for key in node) + 1)
        if len(items) > 2 * len(node) + 1000:
            return {"$dict": [[key, _as_tree(value)] for key, value in node.items()]}
        for key, value in node.items():
            items[int(key)] = _as_tree(value)
        return items
    if all(isinstance(key, str) and not key.startswith("$") for key in node):
        return {key: _as_tree(value) for key, value in node.items()}
    return {"$dict": [[key, _as_tree(value)] for key, value in node.items()]}
