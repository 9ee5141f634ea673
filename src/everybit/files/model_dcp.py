"""The model in a DCP folder: its tensors put together from the chunks of every rank's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.errors import DamagedError
from everybit.files.damage import MalformedError
from everybit.files.formats.dcp_metadata import METADATA_NAME, DcpMetadata, read_metadata
from everybit.files.formats.distcp import read_entries
from everybit.files.model import ModelTensor
from everybit.files.model_found import Found, part_of, single
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.parts import Part

_Key = tuple[str, tuple[int, ...]]


def add_dcp(found: Found, folder: Path) -> None:
    """Add the tensors and values that a DCP folder's `.metadata` lists.

    Raises:
        PathError: A file cannot be read.
        DamagedError: A file is damaged, or missing; names the rule.
    """
    place = folder / METADATA_NAME
    try:
        with ByteSource(place) as source:
            metadata = read_metadata(source)
    except MalformedError as error:
        raise error.damage.error(place) from None
    if metadata.damages:
        raise metadata.damages[0].error(place)
    parts: dict[_Key, Part] = {}
    for path in sorted({entry.path for entry in metadata.entries}):
        if not (folder / path).exists():
            raise DamagedError(
                f"is missing; {METADATA_NAME} lists it",
                rule="FIL103",
                where=str(folder / path),
                todo="fetch it from where the checkpoint came from",
            )
        found.files.append(path)
        with ByteSource(folder / path) as source:
            _add_file(found, source, metadata, path, parts)
    for name, tensor in metadata.tensors.items():
        held = [parts.get((name, offset)) for offset, _ in tensor.chunks]
        there = tuple(part for part in held if part is not None)
        reasons = [part.tensor.unreadable for part in there if part.tensor.unreadable]
        if len(there) < len(held):
            reasons.append("a chunk of it could not be read")
        found.tensors.append(
            ModelTensor(
                name=name,
                dtype=tensor.dtype,
                shape=tensor.shape,
                parts=there,
                unreadable=reasons[0] if reasons else "",
            )
        )


def _add_file(
    found: Found, source: ByteSource, metadata: DcpMetadata, path: str, parts: dict[_Key, Part]
) -> None:
    entries, damages, skipped = read_entries(source, metadata, path)
    damages += [damage for each in entries for damage in each.structure.damages]
    if damages:
        raise damages[0].error(source.path)
    found.skipped += skipped
    for each in entries:
        found.skipped += each.structure.skipped
        if each.listed is None:
            continue
        if each.listed.offset is not None:
            for tensor in each.structure.tensors:
                parts[each.listed.name, each.listed.offset] = part_of(
                    tensor, path, each.listed.offset
                )
            continue
        found.tensors += [single(tensor, path, "") for tensor in each.structure.tensors]
        name, held = each.listed.name, each.structure.values
        found.values |= {f"{name}.{key}" if key else name: value for key, value in held.items()}
        if not each.structure.values_whole:
            found.notes.append(f"{path} holds other objects beside tensors and plain values")
