"""`extract`: save what is whole of a damaged model into a new file."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit._version import __version__
from everybit.core.errors import DamagedError
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.files.passes import no_progress
from everybit.files.salvage.gathering import Gathered, Kept, gather
from everybit.files.salvage.states import Witness
from everybit.files.salvage.writing import (
    new_file,
    refuse_existing,
    stored_as,
    write_safetensors,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

SCHEMA: Final = "everybit.lost/1"
_SUFFIX: Final = ".lost.json"


def extract(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    progress: Callable[[int], None] = no_progress,
) -> Verdict:
    """Save the tensors that are whole of a damaged file or folder, as a safetensors file.

    A tensor is whole where the digest that it was sealed with says so (a manifest that lists the
    file is found by itself), else where its archive's checksum holds, else where nothing speaks
    against it. All that was left out stands in `<out>.lost.json`, with the reason. Works on cut
    files, on archives without directory, on folders that lack a file. Tensors that shared a storage
    are written each on its own.

    Args:
        path: A model file or folder.
        out: The new file. Neither it nor `<out>.lost.json` may exist.
        progress: Is told the bytes read and written, as they are.

    Returns:
        The verdict on what was found: its findings say what is damaged, its coverage how many
        tensors were saved and by whose word, its skipped checks what nothing speaks for.

    Raises:
        PathError: Something cannot be read or written, or exists already. Nothing is left behind.
        DamagedError: Nothing of it is whole; nothing is written.
    """
    began = time.perf_counter()
    source, place = Path(path), Path(out)
    report = place.with_name(place.name + _SUFFIX)
    for each in (place, report):
        refuse_existing(each)
    found = gather(source, progress)
    kept = _with_own_names(found.kept)
    if not kept:
        first = found.findings[0] if found.findings else None
        why = found.lost[0].why if found.lost else first.message if first is not None else ""
        raise DamagedError(
            f"holds no tensor that is whole{': ' if why else ''}{why}",
            rule=first.rule if first is not None else "FIL107",
            where=str(source),
        )
    metadata = {"extracted_by": f"everybit {__version__}", "extracted_from": source.name}
    told = False
    try:
        with new_file(place) as data:
            write_safetensors(data, source, kept, metadata, progress)
            text = json.dumps(_report(source, place, kept, found), indent=1, ensure_ascii=False)
            with new_file(report) as words:
                words.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
            told = True
    except BaseException:
        if told:
            report.unlink(missing_ok=True)
        raise
    return _verdict(source, kept, found, time.perf_counter() - began, place.stat().st_size)


def _with_own_names(kept: list[Kept]) -> list[Kept]:
    """Return the tensors; where two are called the same, the second under its file's name."""
    seen: dict[str, Kept] = {}
    for one in kept:
        name = one.name or "tensor"
        number = 1
        while name in seen or name == "__metadata__":
            number += 1
            name = f"{one.parts[0].path or 'tensor'}.{one.name}" + f".{number}" * (number > 2)
        seen[name] = one if name == one.name else replace(one, name=name)
    return list(seen.values())


def _report(source: Path, place: Path, kept: list[Kept], found: Gathered) -> dict[str, Any]:
    """Return what `<out>.lost.json` says."""
    by_witness = {
        str(witness): [one.name for one in kept if one.witness is witness] for witness in Witness
    }
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "source": str(source),
        "out": place.name,
        "num_kept": len(kept),
        "num_lost": len(found.lost),
        "kept_by": {witness: len(names) for witness, names in by_witness.items() if names},
        "lost": [{"tensor": one.name, "file": one.path, "why": one.why} for one in found.lost],
    }
    optional = {
        "unproven": by_witness[str(Witness.NOTHING_AGAINST)],
        "doubtful": [{"tensor": one.name, "why": one.doubt} for one in kept if one.doubt],
        "shared": _shared(kept),
        "stored_as": {one.name: stored_as(one.dtype) for one in kept if stored_as(one.dtype)},
        "findings": [finding.to_json() for finding in found.findings],
    }
    return report | {key: value for key, value in optional.items() if value}


def _shared(kept: list[Kept]) -> list[list[str]]:
    """Return the names of tensors that lay in the same bytes."""
    places: dict[object, list[str]] = {}
    for one in kept:
        ranges = tuple((part.path, part.tensor.byte_ranges) for part in one.parts)
        if any(part.tensor.byte_ranges for part in one.parts):
            places.setdefault(ranges, []).append(one.name)
    return [names for names in places.values() if len(names) > 1]


def _verdict(
    source: Path, kept: list[Kept], found: Gathered, seconds: float, num_bytes: int
) -> Verdict:
    checked = [Checked(what="tensors saved", count=len(kept))]
    counts = {witness: sum(one.witness is witness for one in kept) for witness in Witness}
    checked += [
        Checked(what=f"of them proven by {witness}", count=counts[witness])
        for witness in (Witness.DIGEST, Witness.CHECKSUM)
        if counts[witness]
    ]
    if found.lost:
        checked.append(Checked(what="tensors lost", count=len(found.lost)))
    skipped = []
    if counts[Witness.NOTHING_AGAINST]:
        why = "no checksum and no seal speaks for them; nothing was found against them"
        what = f"bytes of {counts[Witness.NOTHING_AGAINST]} tensors saved"
        skipped.append(Skipped(what=what, why=why))
    return Verdict(
        command="extract",
        target=(str(source),),
        findings=tuple(found.findings),
        coverage=Coverage(checked=tuple(checked), skipped=tuple(skipped)),
        stats={"bytes": num_bytes, "seconds": seconds},
    )
