"""What lies at a path that is to be converted, and which new files come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.files.checks.shard_index import is_index
from everybit.files.formats.dcp_metadata import METADATA_NAME
from everybit.files.identify import identify
from everybit.files.model_layout import list_names
from everybit.files.source import ByteSource
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from pathlib import Path

_TAKEN: Final = frozenset(
    {
        FileFormat.TORCH_ZIP,
        FileFormat.ZIP,
        FileFormat.TORCH_LEGACY,
        FileFormat.TORCH_TAR,
        FileFormat.PICKLE,
    }
)
#: Endings under which people keep pickles, whatever their content turns out to be.
_SUFFIXES: Final = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle", ".tar", ".pyt", ".p")
_MODEL: Final = "model"
#: Stems that mean the model itself; loaders look for it under another name in the new format.
_MAIN_STEMS: Final = frozenset({"pytorch_model", "consolidated"})


class Shape(StrEnum):
    """How what is converted lies on disk."""

    FILE = "file"
    SHARDED = "sharded"
    DCP = "dcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One object tree to convert.

    Attributes:
        shape: How it lies on disk.
        root: What the files' paths are relative to: a folder, or the file itself.
        stem: What the new files are called, without their endings.
        files: The files of it, relative to `root`; `("",)` for a single one.
        index: The index that lists them.
    """

    shape: Shape
    root: Path
    stem: str
    files: tuple[str, ...] = ("",)
    index: Path | None = None


@dataclass(slots=True, kw_only=True)
class Job:
    """All that is converted at once.

    Attributes:
        units: The object trees.
        others: Files beside them that are left where they are.
        is_folder: The path is a folder of single files.
    """

    units: list[Unit] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    is_folder: bool = False


def find_units(path: Path) -> Job:
    """Return what lies at a path.

    Raises:
        PathError: It cannot be read, or there is nothing to convert.
    """
    if path.is_dir():
        return _in_folder(path)
    if path.name == METADATA_NAME:
        return Job(units=[Unit(shape=Shape.DCP, root=path.parent, stem=_MODEL)])
    if is_index(path.name):
        return Job(units=[_sharded(path)])
    return Job(units=[Unit(shape=Shape.FILE, root=path, stem=_stem(path.name))])


def _sharded(index: Path) -> Unit:
    return Unit(shape=Shape.SHARDED, root=index.parent, stem=_MODEL, index=index)


def _in_folder(folder: Path) -> Job:
    names = list_names(folder)
    if METADATA_NAME in names or any(name.endswith(".distcp") for name in names):
        job = Job(units=[Unit(shape=Shape.DCP, root=folder, stem=_MODEL)])
        rest = [n for n in names if n != METADATA_NAME and not n.endswith(".distcp")]
        return _with_files(job, folder, rest)
    indexes = [name for name in names if is_index(name)]
    pickled = [name for name in indexes if ".safetensors" not in name]
    if pickled:
        job = Job(units=[_sharded(folder / pickled[0])])
        listed = _listed(folder / pickled[0])
        rest = [n for n in names if n not in listed and n != pickled[0]]
        return _with_files(job, folder, rest)
    job = _with_files(Job(is_folder=True), folder, names)
    if not job.units:
        raise PathError(
            "holds no torch file to convert",
            where=str(folder),
            todo="name a file, a folder of torch files, or a DCP folder",
        )
    return job


def _with_files(job: Job, folder: Path, names: list[str]) -> Job:
    """Add the pickled files among some names; note the others."""
    stems = {unit.stem for unit in job.units}
    for name in names:
        if not _is_pickled(folder / name):
            job.others.append(name)
            continue
        stem = _stem(name)
        if stem in stems:
            stem = name
        stems.add(stem)
        job.units.append(Unit(shape=Shape.FILE, root=folder / name, stem=stem))
    job.is_folder = job.is_folder or len(job.units) > 1
    return job


def _is_pickled(path: Path) -> bool:
    """Return whether a file of a folder is one to convert: by its content, and by its name."""
    if path.name.startswith(".") or not path.name.lower().endswith(_SUFFIXES):
        return False
    with ByteSource(path) as source:
        return identify(source) in _TAKEN


def _listed(index: Path) -> set[str]:
    from everybit.files.checks.shard_index import shards_of

    return set(shards_of(index) or ())


def _stem(name: str) -> str:
    stem = name.rpartition(".")[0] or name
    return _MODEL if stem in _MAIN_STEMS else stem
