"""`convert`: from pickled checkpoints to safetensors and a sidecar, with no code run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from everybit._version import __version__
from everybit.core.errors import PathError, UsageError
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.files.converting.checking import refuse_changed
from everybit.files.converting.outputs import new_files, new_folder
from everybit.files.converting.proving import prove
from everybit.files.converting.shards import (
    INDEX_SUFFIX,
    SUFFIX,
    index_text,
    parse_size,
    plan_shards,
)
from everybit.files.converting.sidecar import SUFFIX as SIDECAR_SUFFIX
from everybit.files.converting.sidecar import records_of, sidecar_text
from everybit.files.converting.sources import Unit, find_units
from everybit.files.converting.storages import Entry, cut_into_entries
from everybit.files.converting.trees import Document, read_document
from everybit.files.passes import no_progress
from everybit.files.salvage.writing import refuse_existing, write_safetensors

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from everybit.core.digest import Digest
    from everybit.files.converting.shards import Shard

#: A source is read for its digest, for writing and for the proof.
_NUM_PASSES = 3


def convert(
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    max_shard_size: str | int | None = None,
    progress: Callable[[int], None] = no_progress,
) -> Verdict:
    """Write a checkpoint as safetensors and a sidecar of its structure; run none of its code.

    Tensors go into safetensors files under their dotted names, storages once; everything else goes
    into `<name>.state.json`. At the end every byte is read back from the disk and held against the
    source. `everybit.restore` gives the whole object back.

    Args:
        src: A file of `torch.save` of any age, an index or folder of shards, a DCP folder, or a
            folder of such files.
        out: The new file where it ends in `.safetensors`, else a new folder. Nothing may lie there.
        max_shard_size: Most bytes of a safetensors file ("5GB", "512MiB"), an index beside them;
            None for one file.
        progress: Is told the bytes read, as they are.

    Returns:
        The verdict: its findings name objects that stay records, its coverage how much was proven.

    Raises:
        PathError: Something cannot be read, carried over or written, or exists already.
        DamagedError: The source is damaged, or would run code when loaded; names the rule.
        UsageError: `max_shard_size` is no size. In all cases nothing is left behind.
    """
    began = time.perf_counter()
    source, place = Path(src), Path(out)
    limit = parse_size(max_shard_size)
    refuse_existing(place)
    job = find_units(source)
    as_file = place.name.endswith(SUFFIX)
    if as_file and job.is_folder:
        raise UsageError(
            f"{source} holds several files, and --out names one file",
            todo="name a new folder",
        )
    told = _Thirds(progress)
    documents = []
    if as_file:
        unit = job.units[0]
        documents.append(_to_file(unit, place, limit, told))
    else:
        needed = sum(_size_of(unit) for unit in job.units)
        with new_folder(place, needed) as folder:
            documents += [_into_folder(unit, folder, limit, told) for unit in job.units]
            for document in documents:
                _refuse_changed(document)
    return _verdict(source, documents, job.others, time.perf_counter() - began)


class _Done:
    """One object tree, converted."""

    def __init__(self, document: Document, entries: list[Entry], names: list[str]) -> None:
        self.document = document
        self.entries = entries
        self.names = names


class _Thirds:
    """Progress of several passes over a source, told as one."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._rest = 0

    def __call__(self, num_bytes: int) -> None:
        self._rest += num_bytes
        whole, self._rest = divmod(self._rest, _NUM_PASSES)
        self._tell(whole)


def _plan(
    unit: Unit, stem: str, limit: int | None, told: Callable[[int], None]
) -> tuple[Document, list[Shard], list[Entry]]:
    document = read_document(unit, told)
    found = document.found
    entries = [
        entry for storage in found.storages for entry in cut_into_entries(storage, found.names)
    ]
    return document, plan_shards(entries, stem, limit), entries


def _to_file(unit: Unit, place: Path, limit: int | None, told: Callable[[int], None]) -> _Done:
    """Convert into a file beside which the others lie."""
    stem = place.name.removesuffix(SUFFIX)
    sidecar = place.with_name(stem + SIDECAR_SUFFIX)
    refuse_existing(sidecar)
    document, shards, entries = _plan(unit, stem, limit, told)
    names = _names(shards, stem)
    paths = [place.with_name(name) for name in names]
    needed = sum(entry.num_bytes for entry in entries)
    with new_files(paths, needed) as temporary:
        _write(document, shards, entries, dict(zip(names, temporary, strict=True)), stem, told)
        _refuse_changed(_Done(document, entries, names))
    return _Done(document, entries, names)


def _into_folder(unit: Unit, folder: Path, limit: int | None, told: Callable[[int], None]) -> _Done:
    """Convert into a folder that is not to be seen before it is complete."""
    document, shards, entries = _plan(unit, unit.stem, limit, told)
    names = _names(shards, unit.stem)
    _write(document, shards, entries, {name: folder / name for name in names}, unit.stem, told)
    return _Done(document, entries, names)


def _names(shards: list[Shard], stem: str) -> list[str]:
    """Return the new files' names, the sidecar's last: with it all are there."""
    index = [stem + INDEX_SUFFIX] if len(shards) > 1 else []
    return [*(shard.name for shard in shards), *index, stem + SIDECAR_SUFFIX]


def _write(
    document: Document,
    shards: list[Shard],
    entries: list[Entry],
    places: dict[str, Path],
    stem: str,
    told: Callable[[int], None],
) -> None:
    """Write, read back and compare the safetensors files, then write what describes them."""
    root = document.unit.root
    metadata = {
        "format": "pt",
        "converted_by": f"everybit {__version__}",
        "converted_from": root.name,
        "state": stem + SIDECAR_SUFFIX,
    }
    digests: dict[str, Digest] = {}
    for shard in shards:
        write_safetensors(places[shard.name], root, shard.entries, metadata, told)
    for shard in shards:
        digests |= prove(places[shard.name], root, shard.entries, told)
    if len(shards) > 1:
        _put_text(places[stem + INDEX_SUFFIX], index_text(shards))
    _put_text(places[stem + SIDECAR_SUFFIX], sidecar_text(document, shards, entries, digests))


def _put_text(place: Path, text: str) -> None:
    import os

    with place.open("wb") as file:
        # Half of a surrogate pair becomes its escape, which JSON reads as the same.
        file.write(text.encode("utf-8", "backslashreplace"))
        file.flush()
        os.fsync(file.fileno())


def _refuse_changed(done: _Done) -> None:
    document = done.document
    for file in document.files:
        single = document.place("") if document.unit.files == ("",) else None
        inside = document.unit.root / file.path
        refuse_changed(file, single if single is not None and single.is_file() else inside)


def _size_of(unit: Unit) -> int:
    try:
        if not unit.root.is_dir():
            return unit.root.stat().st_size
        return sum(each.stat().st_size for each in unit.root.iterdir() if each.is_file())
    except OSError as error:
        raise PathError.from_os_error(error, unit.root) from error


def _verdict(source: Path, done: list[_Done], others: list[str], seconds: float) -> Verdict:
    entries = [entry for each in done for entry in each.entries]
    views = sum(len(each.document.found.views) for each in done)
    records = [record for each in done for record in records_of(each.document)]
    checked = [
        Checked(what="tensors", count=views),
        Checked(what="storages", count=sum(len(d.document.found.storages) for d in done)),
        Checked(what="entries read back and equal to the source, bit for bit", count=len(entries)),
    ]
    if records:
        count = sum(record["count"] for record in records)
        checked.append(Checked(what="objects kept as inert records", count=count))
    skipped = [
        Skipped(what="a program", why=note, promised=False)
        for each in done
        for note in each.document.notes
    ]
    if others:
        named = ", ".join(others[:4]) + (" ..." if len(others) > 4 else "")
        why = "no pickle is in them; copy them as they are"
        skipped.append(Skipped(what=f"other files ({named})", why=why, promised=False))
    return Verdict(
        command="convert",
        target=(str(source),),
        findings=tuple(finding for each in done for finding in each.document.findings),
        coverage=Coverage(checked=tuple(checked), skipped=tuple(skipped)),
        stats={
            "bytes": sum(entry.num_bytes for entry in entries),
            "seconds": seconds,
            "files": [name for each in done for name in each.names],
            "records": records,
        },
    )
