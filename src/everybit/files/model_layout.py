"""Which files make up the model at a path, and what its tensors are called."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.errors import DamagedError, PathError
from everybit.files.checks.shard_index import is_index, shards_of
from everybit.files.formats.dcp_metadata import METADATA_NAME
from everybit.files.model import Layout, Model
from everybit.files.model_dcp import add_dcp
from everybit.files.model_found import Found, single
from everybit.files.reading import read_tensors
from everybit.files.sniff import looks_like_model_name

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.tensor import FileTensors

#: Stems of files that hold the model itself, beside which others are optimizer and the like.
_MAIN_STEMS: Final = (
    "model", "pytorch_model", "adapter_model", "diffusion_pytorch_model", "consolidated",
    "pytorch_lora_weights", "open_clip_model",
)  # fmt: skip
_SUFFIXES: Final = (
    ".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".npz", ".npy", ".tar", ".distcp",
)  # fmt: skip
#: What is written beside a model and holds no tensor of it.
_NOT_TENSORS: Final = frozenset({"training_args.bin"})
_MAX_FILES: Final = 100_000


def read_layout(path: Path) -> Model:
    """Read the model at a path.

    Raises:
        PathError: It cannot be read, or holds no model that this release reads.
        DamagedError: A file of it is damaged, or missing; names the rule.
    """
    if path.is_dir():
        return _read_folder(path)
    if path.name == METADATA_NAME:
        return _read_dcp(path.parent)
    if is_index(path.name):
        return _read_sharded(path)
    found = Found()
    _add(found, path, "", "")
    return found.model(path, Layout.FILE)


def _read_folder(folder: Path) -> Model:
    names = list_names(folder)
    if METADATA_NAME in names or any(name.endswith(".distcp") for name in names):
        return _read_dcp(folder, names)
    indexes = sorted((name for name in names if is_index(name)), key=_safetensors_first)
    if indexes:
        model = _read_sharded(folder / indexes[0])
        return _with_rest(model, [name for name in names if name not in model.files])
    models = [name for name in names if _is_model(name)]
    if not models:
        raise PathError("holds no model file", where=str(folder), todo=_what_else(folder))
    if len(models) == 1:
        found = Found()
        _add(found, folder / models[0], models[0], "")
        return found.model(folder, Layout.FOLDER)
    main = [name for name in models if _stem(name) in _MAIN_STEMS]
    main.sort(key=_safetensors_first)
    found = Found()
    for name in main[:1]:
        _add(found, folder / name, name, "")
    return _with_rest(found.model(folder, Layout.FOLDER), [n for n in models if n not in main[:1]])


def _with_rest(model: Model, names: list[str]) -> Model:
    """Add the other model files of a folder, their tensors under their own names."""
    found = Found(
        tensors=list(model.tensors),
        files=list(model.files),
        values=dict(model.values),
        skipped=list(model.skipped),
        notes=list(model.notes),
    )
    for name in names:
        if _is_model(name):
            _add(found, model.path / name, name, f"{_stem(name)}.")
    return found.model(model.path, model.layout)


def _read_sharded(index: Path) -> Model:
    shards = shards_of(index)
    if shards is None:
        raise DamagedError(
            "is no index of a sharded model", rule="FIL107", where=str(index), todo="fetch it again"
        )
    found = Found()
    for shard in shards:
        place = index.parent / shard
        if not place.exists():
            raise DamagedError(
                f"is missing; {index.name} lists it",
                rule="FIL103",
                where=str(place),
                todo="fetch it from where the model came from",
            )
        _add(found, place, shard, "")
    _refuse_repeated(found, index.parent)
    return found.model(index.parent, Layout.SHARDED)


def _read_dcp(folder: Path, names: list[str] | None = None) -> Model:
    names = list_names(folder) if names is None else names
    found = Found()
    if METADATA_NAME in names:
        add_dcp(found, folder)
    else:
        found.notes.append(f"no {METADATA_NAME} names its tensors")
        for name in names:
            if name.endswith(".distcp"):
                _add(found, folder / name, name, f"{_stem(name)}.")
    for name in names:
        if name not in found.files and not name.endswith(".distcp") and _is_model(name):
            # Lightning keeps epoch, step and the like beside the tensors, under their own names.
            _add(found, folder / name, name, "" if name == "meta.pt" else f"{_stem(name)}.")
    return found.model(folder, Layout.DCP)


def _add(found: Found, path: Path, relative: str, prefix: str) -> None:
    """Add one file's tensors and plain values under a prefix."""
    held: FileTensors = read_tensors(path, digests=False)
    label = relative or path.name
    found.tensors += [single(tensor, relative, prefix) for tensor in held.tensors]
    found.files.append(relative)
    found.skipped += [replace(item, what=f"{label}: {item.what}") for item in held.skipped]
    found.notes += held.notes
    found.values |= {f"{prefix}{key}" if key else prefix[:-1]: v for key, v in held.values.items()}
    if not held.values_whole:
        found.notes.append(f"{label} holds other objects beside tensors and plain values")


def _refuse_repeated(found: Found, folder: Path) -> None:
    seen: dict[str, str] = {}
    for tensor in found.tensors:
        path = tensor.parts[0].path
        if seen.setdefault(tensor.name, path) != path:
            raise DamagedError(
                f"tensor {tensor.name!r} is in {seen[tensor.name]} and in {path}",
                rule="FIL114",
                where=str(folder),
                todo="remove the shard that belongs to another save",
            )


def list_names(folder: Path) -> list[str]:
    """Return the names of the files right in a folder, sorted, without hidden ones.

    Raises:
        PathError: It cannot be read, or holds more than 100,000 files.
    """
    names = []
    try:
        for entry in os.scandir(folder):
            if entry.is_file() and (not entry.name.startswith(".") or entry.name == METADATA_NAME):
                names.append(entry.name)
            if len(names) > _MAX_FILES:
                raise PathError(f"holds more than {_MAX_FILES} files", where=str(folder))
    except OSError as error:
        raise PathError.from_os_error(error, folder) from error
    return sorted(names)


def _is_model(name: str) -> bool:
    if name in _NOT_TENSORS:
        return False
    return looks_like_model_name(name) or name.lower().endswith(_SUFFIXES)


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def _safetensors_first(name: str) -> tuple[bool, str]:
    return ".safetensors" not in name, name


def _what_else(folder: Path) -> str:
    """Return the advice for a folder with no model: the folders in it that may hold one."""
    try:
        inside = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        inside = []
    if not inside:
        return "name a model file, or a folder with one in it"
    more = " ..." if len(inside) > 4 else ""
    return f"name one of the folders in it ({', '.join(inside[:4])}{more})"
