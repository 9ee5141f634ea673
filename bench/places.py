"""Where everything lies in a checkpoint's files, found without everybit.

A tensor's bytes are random, so that they are searched for; archives are opened by `zipfile` and
`tarfile`, DCP's index by Python's own pickle.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.subjects import Subject

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A written checkpoint: its bytes and their places.

    Attributes:
        files: `{relative path: bytes}`.
        tensors: `{name: (file, start, end)}`.
        regions: `{(file, kind): spans}` for `data`, `header`, `index` and `pickle`.
    """

    files: dict[str, bytes]
    tensors: dict[str, tuple[str, int, int]]
    regions: dict[tuple[str, str], list[Span]] = field(default_factory=dict)


def lay(subject: Subject, folder: Path, seed: int) -> Laid:
    """Write a checkpoint into an empty folder and find where everything in it lies."""
    folder.mkdir(parents=True, exist_ok=True)
    named = subject.write(folder, seed)
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    tensors = {}
    for name, wanted in named.items():
        found = [(file, at) for file, data in files.items() if (at := data.find(wanted)) >= 0]
        if len(found) != 1:
            raise ValueError(f"{subject.name}: {name} lies in {len(found)} places")
        tensors[name] = (*found[0], found[0][1] + len(wanted))
    laid = Laid(files=files, tensors=tensors)
    for file in files:
        for kind, spans in _regions(file, files, tensors).items():
            if spans:
                laid.regions[file, kind] = spans
    return laid


def _regions(
    file: str, files: dict[str, bytes], tensors: dict[str, tuple[str, int, int]]
) -> dict[str, list[Span]]:
    data = files[file]
    held = sorted((start, end) for name, start, end in tensors.values() if name == file)
    pickles: list[Span] = []
    index: list[Span] = []
    if file == ".metadata":
        return {"index": [(0, len(data))]}
    if file.endswith(".json"):
        return {"index": [(0, len(data))]}
    if file.endswith(".pkl"):
        return {"pickle": [(0, len(data))]}
    if file.endswith(".distcp"):
        # everybit: ignore[SRC302] this script has written it a moment ago
        described = pickle.loads(files[".metadata"])
        for entry in described.storage_data.values():
            if entry.relative_path == file:
                end = entry.offset + entry.length
                nested = _zip_regions(data[entry.offset : end], entry.offset)
                pickles += nested[0]
                index += nested[1]
    elif data[:2] == b"PK":
        pickles, index = _zip_regions(data, 0)
    elif data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            pickles = [
                (entry.offset_data, entry.offset_data + entry.size)
                for entry in archive
                if entry.name in ("pickle", "sys_info", "tensors")
            ]
    elif data[:1] == b"\x80":
        # Sizes of eight bytes stand before each storage; all else before is pickles.
        pickles = [(0, held[0][0] - 8)]
    taken = [*held, *pickles, *index]
    return {
        "data": held,
        "pickle": pickles,
        "index": index,
        "header": list(_between(taken, len(data))),
    }


def _zip_regions(data: bytes, base: int) -> tuple[list[Span], list[Span]]:
    """Where an archive's pickle records lie, and its directory."""
    pickles = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".pkl"):
                at = info.header_offset
                lengths = [data[at + n] + 256 * data[at + n + 1] for n in (26, 28)]
                start = at + 30 + sum(lengths)
                pickles.append((base + start, base + start + info.file_size))
        directory = archive.start_dir
    return pickles, [(base + directory, base + len(data))]


def _between(taken: Iterable[Span], size: int) -> Iterable[Span]:
    at = 0
    for start, end in sorted(taken):
        if start > at:
            yield at, start
        at = max(at, end)
    if at < size:
        yield at, size
