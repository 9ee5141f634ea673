"""Everything that is whole at a path: one file, a folder of shards, a DCP folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.files.checks.placed import missing
from everybit.files.checks.shard_index import is_index, shards_of
from everybit.files.damage import MalformedError
from everybit.files.elements import expands_too_far
from everybit.files.folder import holds_model
from everybit.files.formats.dcp_metadata import METADATA_NAME, DcpMetadata, read_metadata
from everybit.files.formats.distcp import read_entries
from everybit.files.model_found import part_of
from everybit.files.salvage.examining import Examined, examine
from everybit.files.salvage.states import Witness
from everybit.files.seals.manifest import load_manifest
from everybit.files.source import ByteSource
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.parts import Part
    from everybit.files.salvage.states import State
    from everybit.files.seals.manifest import SealedFile

_MAIN_STEMS: Final = ("model", "pytorch_model", "adapter_model", "consolidated")
_MAX_FILES: Final = 100_000
_GONE: Final = "its file is not there"
_REPEATS: Final = "it repeats its storage too often to be written out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A tensor that is whole.

    Attributes:
        name: As the new file calls it.
        dtype: Canonical dtype name.
        shape: Shape.
        parts: Where it lies; paths are relative to the target.
        witness: What says that it is whole; of several parts the weakest.
        doubt: What is odd about it all the same.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    witness: Witness
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A tensor that is not.

    Attributes:
        name: As the target calls it.
        path: The file that holds or held it, relative to the target.
        why: What is wrong with it.
    """

    name: str
    path: str
    why: str


@dataclass(slots=True, kw_only=True)
class Gathered:
    """What was found at a path.

    Attributes:
        kept: Tensors that are whole.
        lost: Those that are not.
        findings: What is wrong with the files.
        files: The files looked at, relative to the target; `""` for the target itself.
    """

    kept: list[Kept] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def gather(path: Path, progress: Callable[[int], None]) -> Gathered:
    """Look at everything that a path holds.

    Raises:
        PathError: It cannot be read, or a folder holds no model.
    """
    found = Gathered()
    if not path.is_dir():
        _add_file(found, path, "", "", progress)
        return found
    names = _list(path)
    metadata = _metadata_in(path, names)
    if metadata is not None:
        _add_dcp(found, path, metadata, progress)
        names = [name for name in names if name not in found.files and name != METADATA_NAME]
    listed: dict[str, list[str]] = {}
    for name in names:
        if is_index(name):
            listed |= shards_of(path / name) or {}
    models = [name for name in names if name not in listed and _is_model(path / name)]
    for shard in listed:
        if (path / shard).is_file():
            _add_file(found, path / shard, shard, "", progress)
        else:
            found.findings.append(missing(shard, listed_by="the index"))
    main = _main(models) if not listed and metadata is None else ""
    for name in models:
        prefix = "" if name == main else f"{name.rpartition('.')[0] or name}."
        _add_file(found, path / name, name, prefix, progress)
    _note_absent(found, listed)
    if not found.files and not found.findings:
        raise PathError("holds no model file", where=str(path), todo="name a file or another one")
    return found


def _list(folder: Path) -> list[str]:
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise PathError.from_os_error(error, folder) from error
    if len(names) > _MAX_FILES:
        raise PathError(f"holds more than {_MAX_FILES} files", where=str(folder))
    return [n for n in names if not n.startswith(".") or n == METADATA_NAME]


def _is_model(path: Path) -> bool:
    return path.suffix != ".json" and path.name != "training_args.bin" and holds_model(path)


def _main(models: list[str]) -> str:
    """Return the file whose tensors keep their names among others'."""
    if len(models) == 1:
        return models[0]
    for stem in _MAIN_STEMS:
        for name in models:
            if name.rpartition(".")[0] == stem:
                return name
    return ""


def _add_file(
    found: Gathered, path: Path, relative: str, prefix: str, progress: Callable[[int], None]
) -> None:
    with ByteSource(path) as source:
        examined = examine(source, relative or path.name, _seal_of(path), progress)
        if source.changed():
            raise PathError("changed while it was read", where=str(path), todo="try again")
    found.files.append(relative)
    found.findings += examined.findings
    for state in examined.states:
        tensor = state.tensor
        part = part_of(tensor, relative, (0,) * len(tensor.shape))
        _add(found, prefix + tensor.name, tensor.dtype, tensor.shape, (part,), (state,), relative)
    for name, why in examined.unplaced.items():
        found.lost.append(Lost(name=prefix + name, path=relative, why=why))


def _add(
    found: Gathered,
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    parts: tuple[Part, ...],
    states: tuple[State, ...],
    path: str,
) -> None:
    why = next((state.why for state in states if state.witness is None), "")
    if not why and any(expands_too_far(part.tensor) for part in parts):
        why = _REPEATS
    if why:
        found.lost.append(Lost(name=name, path=path, why=why))
        return
    order = list(Witness)
    witnesses = [state.witness for state in states if state.witness is not None]
    found.kept.append(
        Kept(
            name=name,
            dtype=dtype,
            shape=shape,
            parts=parts,
            witness=max(witnesses, key=order.index, default=Witness.NOTHING_AGAINST),
            doubt=next((state.doubt for state in states if state.doubt), ""),
        )
    )


def _seal_of(path: Path) -> SealedFile | None:
    """Return the seal of a file, from the nearest manifest above it that lists it."""
    place = path.absolute()
    for folder in place.parents:
        try:
            manifest = load_manifest(folder)
        except (MalformedError, PathError):
            continue  # a manifest that does not hold proves nothing
        if manifest is not None:
            entry = manifest.files.get(place.relative_to(folder).as_posix())
            if entry is not None:
                return entry
    return None


def _metadata_in(folder: Path, names: list[str]) -> DcpMetadata | None:
    if METADATA_NAME not in names:
        return None
    try:
        with ByteSource(folder / METADATA_NAME) as source:
            return read_metadata(source)
    except MalformedError:
        return None  # its files are looked at one by one, under names of their own


def _add_dcp(
    found: Gathered, folder: Path, metadata: DcpMetadata, progress: Callable[[int], None]
) -> None:
    """Add the tensors that a DCP folder lists, from the chunks of all its files."""
    held: dict[tuple[str, tuple[int, ...]], tuple[Part, State]] = {}
    homes = {(e.name, e.offset): e.path for e in metadata.entries if e.offset is not None}
    for path in sorted({entry.path for entry in metadata.entries}):
        if not (folder / path).is_file():
            found.findings.append(missing(path, listed_by=METADATA_NAME))
            continue
        found.files.append(path)
        with ByteSource(folder / path) as source:
            entries, damages, _ = read_entries(source, metadata, path)
            members = [member for each in entries for member in each.structure.members]
            filled = [member for member in members if member.size]
            structure = Structure(
                format=FileFormat.DISTCP,
                tensors=tuple(t for each in entries for t in each.structure.tensors),
                damages=(*damages, *(d for each in entries for d in each.structure.damages)),
                members=tuple(members),
                has_checksums=2 * sum(member.crc != 0 for member in filled) > len(filled),
            )
            # The seal names tensors as the whole folder does not, so checksums speak here.
            examined: Examined = examine(source, path, None, progress, structure)
        found.findings += examined.findings
        states = {id(state.tensor): state for state in examined.states}
        for each in entries:
            for tensor in each.structure.tensors:
                if each.listed is None or id(tensor) not in states:
                    continue
                state = states[id(tensor)]
                if each.listed.offset is not None:
                    part = part_of(tensor, path, each.listed.offset)
                    held[each.listed.name, each.listed.offset] = (part, state)
                else:
                    part = part_of(tensor, path, (0,) * len(tensor.shape))
                    _add(found, tensor.name, tensor.dtype, tensor.shape, (part,), (state,), path)
    for name, listed in metadata.tensors.items():
        keys = [(name, offset) for offset, _ in listed.chunks]
        absent = [key for key in keys if key not in held]
        if absent:
            path = homes.get(absent[0], "")
            there = (folder / path).is_file() if path else False
            why = "an entry of it cannot be read" if there else _GONE
            found.lost.append(Lost(name=name, path=path, why=why))
            continue
        parts = tuple(held[key][0] for key in keys)
        states_of_it = tuple(held[key][1] for key in keys)
        bad = next((p for p, s in zip(parts, states_of_it, strict=True) if s.witness is None), None)
        path = bad.path if bad is not None else ""
        _add(found, name, listed.dtype, listed.shape, parts, states_of_it, path)


def _note_absent(found: Gathered, listed: dict[str, list[str]]) -> None:
    """Note the tensors that an index lists and that no shard holds."""
    known = {kept.name for kept in found.kept} | {lost.name for lost in found.lost}
    for shard, names in listed.items():
        there = shard in found.files
        why = "its shard does not hold it" if there else _GONE
        found.lost += [Lost(name=n, path=shard, why=why) for n in names if n not in known]
