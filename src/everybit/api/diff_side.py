"""One side of a comparison of files: its model files, their tensors and values, their damage."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from everybit.api.diff_reader import Sources, stored_model, stored_tensor

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.verdict import Skipped
    from everybit.diff.faults import Fault
    from everybit.diff.stored import StoredTensor
    from everybit.files.damage import Damage
    from everybit.files.structure import Structure

#: Of a damaged file, how many of the other side's tensors are tried at the same place.
_TRIED: Final = 8
_SAMPLE_BYTES: Final = 4096
_ENOUGH_BYTES: Final = 16


@dataclass(slots=True, kw_only=True)
class SideFile:
    """One model file, or one folder that is a model, of a side.

    Attributes:
        relative: Its path below what the user named; its name for a single file.
        path: Where it is.
        tensors: Its tensors.
        values: Plain values beside them.
        values_whole: Whether these are all that stands beside the tensors.
        skipped: Parts that could not be read.
        damages: What cannot be right in it.
        structure: Its structure; None for a folder.
        num_bytes: Its size.
    """

    relative: str
    path: Path
    tensors: list[StoredTensor] = field(default_factory=list)
    values: dict[str, object] = field(default_factory=dict)
    values_whole: bool = True
    skipped: list[Skipped] = field(default_factory=list)
    damages: tuple[Damage, ...] = ()
    structure: Structure | None = None
    num_bytes: int = 0


def read_file(sources: Sources, path: Path, relative: str) -> SideFile:
    """Read one model file's tensors; damage that leaves some to compare does not end it.

    Raises:
        PathError: It cannot be read, or is of a format that is not read.
        DamagedError: It is no model file; names the rule.
    """
    from everybit.files.reading import read_structure, refuse_unreadable

    source = sources.at(path)
    structure = read_structure(source)
    if not structure.damages:
        todo = "give a model file: safetensors, or one that `torch.save` wrote"
        refuse_unreadable(structure, source, todo=todo)
    return SideFile(
        relative=relative,
        path=path,
        tensors=_stored(sources, path, relative, structure),
        values=dict(structure.values),
        values_whole=structure.values_whole,
        skipped=[replace(item, what=f"{relative}: {item.what}") for item in structure.skipped],
        damages=structure.damages,
        structure=structure,
        num_bytes=source.size,
    )


def _stored(
    sources: Sources, path: Path, relative: str, structure: Structure
) -> list[StoredTensor]:
    members = {}
    if structure.has_checksums:
        # A compressed member's checksum is over other bytes than those in the file.
        members = {m.name: m for m in structure.members if m.usable and m.size == m.end - m.start}
    return [
        stored_tensor(sources, path, relative, each, member=members.get(each.member or ""))
        for each in structure.tensors
    ]


def read_folder_model(sources: Sources, folder: Path, relative: str) -> SideFile:
    """Read a folder that is one model (DCP) with its parts joined.

    Raises:
        PathError: It cannot be read.
        DamagedError: A file of it is damaged or missing; names the rule.
    """
    from everybit.files.model import read_model

    model = read_model(folder)
    return SideFile(
        relative=relative,
        path=folder,
        tensors=stored_model(sources, model, relative),
        values=dict(model.values),
        skipped=[replace(item, what=f"{relative or '.'}: {item.what}") for item in model.skipped],
    )


def place_like(sources: Sources, damaged: SideFile, whole: SideFile) -> bool:
    """Give a file whose own list of tensors is lost the other side's, at the same places.

    Only where some of their bytes are there; returns whether it was so.
    """
    if damaged.tensors or whole.structure is None or not damaged.damages:
        return False
    there = whole.structure.tensors
    one, other = sources.at(whole.path), sources.at(damaged.path)
    for tensor in [each for each in there if each.plain and each.num_bytes >= _ENOUGH_BYTES][
        :_TRIED
    ]:
        length = min(tensor.num_bytes, _SAMPLE_BYTES, max(0, other.size - tensor.start))
        sample = one.read(tensor.start, length)
        if (
            length >= _ENOUGH_BYTES
            and sample == other.read(tensor.start, length)
            and sample.count(0) < len(sample)
        ):
            break
    else:
        return False
    damaged.tensors = [
        stored_tensor(sources, damaged.path, damaged.relative, each) for each in there
    ]
    return True


def fault_of(side: str, file: SideFile, *, borrowed: bool) -> Fault | None:
    """Return the damage of a side's file, where there is any."""
    from everybit.diff.faults import Fault

    if not file.damages:
        return None
    damage = file.damages[0]
    facts = dict(damage.evidence)
    if borrowed:
        facts["placed_by"] = "the other side's list of tensors"
    if len(file.damages) > 1:
        facts["num_damages"] = len(file.damages)
    place = damage.where.byte_range
    if place is not None:
        facts["byte_range"] = list(place)
    return Fault(
        side=side,
        path=file.relative,
        rule=damage.rule,
        message=damage.message,
        hides_tensors=not borrowed,
        evidence=facts,
    )
