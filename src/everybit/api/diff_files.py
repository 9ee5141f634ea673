"""The half of `diff` that compares model files, and folders of them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.verdict import Skipped

if TYPE_CHECKING:
    from everybit.diff.outcome import Outcome
    from everybit.diff.stored import StoredTensor
    from everybit.files import FileTensor, FileTensors

#: Differing plain values that are told in full.
_MAX_SHOWN = 8
_MAX_TEXT = 60
_MODEL_SUFFIXES = frozenset({".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".distcp"})


def diff_files(a: Path, b: Path) -> Outcome:
    """Compare two model files, or all model files of two folders.

    Files of two folders belong together by their relative path. Where those differ (another number
    of shards, a folder against a file) all tensors of a side are taken together.

    Raises:
        PathError: A path cannot be read or holds no model file.
        DamagedError: A model file is damaged.
    """
    from everybit.diff.tensors import diff_tensors

    read = [_read_side(a), _read_side(b)]
    files = [dict(side) for side, _ in read]
    skipped = [skip for _, skips in read for skip in skips]
    if a.is_dir() and b.is_dir() and (files[0].keys() & files[1].keys()):
        relative = sorted(files[0].keys() | files[1].keys())
        pairs = [(files[0].get(path, []), files[1].get(path, [])) for path in relative]
    else:
        together = [[each for group in side.values() for each in group] for side in files]
        for side, tensors in zip((a, b), together, strict=True):
            _refuse_repeated(side, tensors)
        pairs = [(together[0], together[1])]
    return diff_tensors(pairs, skipped=[*skipped, *_beside_tensors(a, b)])


def _beside_tensors(a: Path, b: Path) -> list[Skipped]:
    """Tell that only tensors are compared, and which plain values beside them differ."""
    from everybit.files import read_plain_values

    if a.is_dir() or b.is_dir():
        why = "only tensors are compared; epochs, steps and other objects in the files are not"
        return [Skipped(what="values beside the tensors", why=why, promised=False)]
    (one, whole_a), (other, whole_b) = read_plain_values(a), read_plain_values(b)
    if not one and not other and whole_a and whole_b:
        return []
    both = [key for key in one if key in other]
    # Text forms: NaN is equal to itself, and 1 is not True.
    differing = [key for key in both if repr(one[key]) != repr(other[key])]
    alone = len(one) + len(other) - 2 * len(both)
    parts = [
        f"only tensors are judged; of {len(both)} plain values in both, {len(differing)} differ"
    ]
    if differing:
        shown = [
            f"{key}: {_short(one[key])} in A, {_short(other[key])} in B"
            for key in differing[:_MAX_SHOWN]
        ]
        more = [f"{len(differing) - _MAX_SHOWN} more"] if len(differing) > _MAX_SHOWN else []
        parts[0] += f" ({'; '.join([*shown, *more])})"
    if alone:
        parts.append(f"{alone} are in one only")
    if not (whole_a and whole_b):
        parts.append("other objects are not looked into")
    return [Skipped(what="values beside the tensors", why="; ".join(parts), promised=False)]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _read_side(path: Path) -> tuple[list[tuple[str, list[StoredTensor]]], list[Skipped]]:
    """Return the tensors of each model file by relative path, and what was left aside."""
    from everybit.files import read_tensors

    if not path.is_dir():
        found = read_tensors(path)
        return [(path.name, _stored(found, path, path.name))], _unread(found, path.name)
    files: list[tuple[str, list[StoredTensor]]] = []
    skipped: list[Skipped] = []
    others = 0
    for place in _walk(path):
        relative = place.relative_to(path).as_posix()
        if place.suffix.lower() not in _MODEL_SUFFIXES:
            others += 1
            continue
        found = read_tensors(place)
        files.append((relative, _stored(found, place, relative)))
        skipped += _unread(found, relative)
    if not files:
        raise PathError(
            "holds neither a run nor a model file",
            where=str(path),
            todo="name a folder that a Guard made, or one with .safetensors or .pt files in it",
        )
    if others:
        why = f"{others} in {path} are no model files by their names"
        skipped.append(Skipped(what="files", why=why, promised=False))
    return files, skipped


def _walk(folder: Path) -> list[Path]:
    def refuse(error: OSError) -> None:
        raise PathError.from_os_error(error, error.filename or folder) from error

    return sorted(
        Path(root) / name
        for root, _, names in os.walk(folder, onerror=refuse)
        for name in names
        if not name.startswith(".")
    )


def _stored(found: FileTensors, path: Path, relative: str) -> list[StoredTensor]:
    from everybit.diff.stored import StoredTensor
    from everybit.files import read_tensor_bytes

    return [
        StoredTensor(
            path=relative,
            name=each.name,
            dtype=each.dtype,
            shape=each.shape,
            num_bytes=each.num_bytes,
            tree=each.tree,
            unreadable=each.unreadable,
            storage=_storage(relative, each),
            read=partial(read_tensor_bytes, path, each),
        )
        for each in found.tensors
    ]


def _storage(relative: str, tensor: FileTensor) -> tuple[object, ...]:
    if not tensor.byte_ranges:
        return ()
    return (relative, tensor.member, tensor.byte_ranges, tensor.dtype, tensor.shape, tensor.stride)


def _unread(found: FileTensors, relative: str) -> list[Skipped]:
    return [replace(item, what=f"{relative}: {item.what}") for item in found.skipped]


def _refuse_repeated(side: Path, tensors: list[StoredTensor]) -> None:
    seen: dict[str, str] = {}
    for each in tensors:
        if seen.setdefault(each.name, each.path) != each.path:
            raise PathError(
                f"tensor {each.name!r} is in {seen[each.name]} and in {each.path}",
                where=str(side),
                todo="name the two files that should be equal",
            )
