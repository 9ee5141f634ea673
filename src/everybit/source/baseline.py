"""A file of findings that are known and not new: only what is not in it is told."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import PathError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.source.linting import Told

SCHEMA: Final = "everybit.baseline/1"
#: What every version of it has near its start, and a damaged one mostly has still.
_MARK: Final = b"everybit.baseline/"
_FIRST: Final = 4096
_MAX_BYTES: Final = 64 * 1024 * 1024

#: Rule, path from the baseline's folder, function or class around, and the line of source without
#: its indentation. No line number: code moves.
Key = tuple[str, str, str, str]


def read_baseline(path: Path) -> Counter[Key]:
    """Return how often each known finding may occur.

    Raises:
        PathError: The file cannot be read.
        UsageError: It is no baseline.
    """
    try:
        data = _read(path, _MAX_BYTES + 1)
    except FileNotFoundError:
        raise PathError(
            "no such baseline", where=str(path), todo="write it first, with --write-baseline"
        ) from None
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    try:
        document: Any = json.loads(data.decode("utf-8-sig")) if len(data) <= _MAX_BYTES else None
        schema = document["schema"]
        if schema != SCHEMA:
            raise ValueError(f"it says {str(schema)[:40]!r}")
        known: Counter[Key] = Counter()
        for entry in document["findings"]:
            known[_key(entry)] += _count(entry)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        said = f": {error}" if str(error).startswith("it says") else ""
        raise UsageError(
            f"no baseline of the form {SCHEMA}{said}",
            where=str(path),
            todo="write it anew with --write-baseline",
        ) from None
    return known


def _read(path: Path, most: int) -> bytes:
    """Return up to so many bytes of a file; a pipe would be waited for."""
    if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
        raise OSError("is not a regular file")
    with path.open("rb") as file:
        return file.read(most)


def _count(entry: dict[str, Any]) -> int:
    count = entry.get("count", 1)
    if type(count) is not int or count < 1:
        raise ValueError("no count")
    return count


def _key(entry: dict[str, Any]) -> Key:
    key = (entry["rule"], entry["path"], entry.get("around", ""), entry["source"])
    if not all(isinstance(part, str) for part in key):
        raise ValueError("not text")
    return key


def check_place(path: Path) -> None:
    """Test that a baseline can be written to a place, and takes nothing else's.

    Raises:
        PathError: It cannot be written.
        UsageError: Something else lies there.
    """
    check_writable(path)
    try:
        head = _read(path, _FIRST) if path.exists() else b""
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    if head.strip() and _MARK not in head:
        raise UsageError(
            "is no baseline, and would be lost", where=str(path), todo="name another file"
        )


def write_baseline(path: Path, told: Iterable[Told]) -> None:
    """Write the findings as a baseline, whole or not at all.

    Raises:
        PathError: It cannot be written.
        UsageError: Something else lies there.
    """
    check_place(path)
    counts = Counter(key_of(each, path) for each in told)
    entries = []
    for (rule, where, around, source), count in sorted(counts.items()):
        entry: dict[str, Any] = {"rule": rule, "path": where, "around": around, "source": source}
        if count > 1:
            entry["count"] = count
        entries.append(entry)
    document = {"schema": SCHEMA, "findings": entries}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode("utf-8", "backslashreplace"))


def key_of(told: Told, baseline: Path) -> Key:
    """Return what makes a finding the same one after the code around it has moved."""
    folder = baseline.resolve().parent
    place = told.found.path.resolve()
    try:
        path = Path(os.path.relpath(place, folder))
    except ValueError:  # another drive
        path = place
    source = " ".join(told.source.split())
    return told.finding.rule, PurePath(path).as_posix(), told.around, source


def without_known(
    told: Sequence[Told], known: Counter[Key], baseline: Path
) -> tuple[list[Told], int, int]:
    """Return the findings that are new, how many were known, and how many known are gone."""
    left = Counter(known)
    new: list[Told] = []
    num_known = 0
    for each in told:
        key = key_of(each, baseline)
        if left[key] > 0:
            left[key] -= 1
            num_known += 1
        else:
            new.append(each)
    return new, num_known, sum(count for count in left.values() if count > 0)
