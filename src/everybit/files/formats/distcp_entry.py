"""One entry of a `.distcp` file: the torch archive that it is, with offsets of the whole file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from everybit.core.verdict import Skipped
from everybit.files.damage import MalformedError
from everybit.files.formats import torch_zip
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat
from everybit.files.window import Window

if TYPE_CHECKING:
    from everybit.files.damage import Damage
    from everybit.files.formats.dcp_metadata import DcpEntry
    from everybit.files.source import ByteSource
    from everybit.files.tensor import FileTensor

#: A torch archive of one tensor is a single node, which has no name of its own.
_ROOT_NAME: Final = "tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry:
    """One entry as it lies in the file, with offsets of the file in everything.

    Attributes:
        label: What it is called in this file.
        start: First byte.
        end: Last byte, excluded.
        listed: What `.metadata` says of it; None where that says nothing.
        structure: Its archive.
    """

    label: str
    start: int
    end: int
    listed: DcpEntry | None
    structure: Structure


def read_one(
    source: ByteSource,
    label: str,
    start: int,
    end: int,
    listed: DcpEntry | None,
    skipped: list[Skipped],
) -> ReadEntry:
    """Read one entry as the archive that it is, and put its offsets right for the whole file."""
    try:
        inner = torch_zip.read_structure(Window(source, start, end))
    except MalformedError as error:
        inner = Structure(format=FileFormat.ZIP, damages=(error.damage,), values_whole=False)
    else:
        if inner.format is FileFormat.ZIP and not inner.damages:
            skipped.append(Skipped(what=f"entry {label}", why="it is no torch archive"))
    moved = Structure(
        format=inner.format,
        tensors=tuple(_move_tensor(tensor, label, start) for tensor in inner.tensors),
        damages=tuple(_move_damage(damage, label, start) for damage in inner.damages),
        members=tuple(
            member.but(
                name=f"{label}/{member.name}",
                header_offset=member.header_offset + start,
                start=member.start + start,
                end=member.end + start,
            )
            for member in inner.members
        ),
        has_checksums=inner.has_checksums,
        skipped=tuple(replace(item, what=f"{label}: {item.what}") for item in inner.skipped),
        values=inner.values,
        values_whole=inner.values_whole,
    )
    return ReadEntry(label=label, start=start, end=end, listed=listed, structure=moved)


def _move_tensor(tensor: FileTensor, label: str, base: int) -> FileTensor:
    return replace(
        tensor,
        name=label if tensor.name == _ROOT_NAME else f"{label}.{tensor.name}",
        member=f"{label}/{tensor.member}" if tensor.member is not None else None,
        start=tensor.start + base,
        byte_ranges=tuple((a + base, b + base) for a, b in tensor.byte_ranges),
    )


def _move_damage(damage: Damage, label: str, base: int) -> Damage:
    where = damage.where
    span = where.byte_range
    return replace(
        damage,
        message=f"entry {label} {damage.message}"
        if damage.message.startswith(("has ", "ends ", "gives "))
        else f"entry {label}: {damage.message}",
        where=replace(
            where,
            member=f"{label}/{where.member}" if where.member is not None else None,
            tensor=label if where.tensor == _ROOT_NAME else where.tensor,
            byte_range=None if span is None else (span[0] + base, span[1] + base),
        ),
        evidence={**damage.evidence, "entry_start": base},
    )
