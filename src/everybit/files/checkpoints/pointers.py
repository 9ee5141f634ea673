"""Files that name the checkpoint to resume from: do they name one that is there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.files.checkpoints.names import step_of
from everybit.files.sniff import looks_like_model_name
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from everybit.core.finding import Finding

#: File names, and what their one line names.
_POINTERS: Final[dict[str, Callable[[str], list[str]]]] = {
    "latest": lambda text: [text],
    "latest_universal": lambda text: [text],
    "latest.txt": lambda text: [text],
    "last_checkpoint": lambda text: [text],
    "latest_checkpoint": lambda text: [text],
    "latest_checkpoint.txt": lambda text: [text],
    "latest_checkpointed_iteration.txt": lambda text: (
        [f"iter_{int(text):07d}"] if text.isdecimal() and len(text) < 18 else [text]
    ),
}
_MAX_BYTES: Final = 4096
_LINE: Final = re.compile(r"[^\x00-\x1f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A file or link that names a checkpoint.

    Attributes:
        name: Its path relative to the target.
        says: What it names, as written.
        target: The path relative to the target of what it names; None where that leads out of it.
        there: Whether something of that name is there.
    """

    name: str
    says: str
    target: str | None
    there: bool


def find_pointers(files: dict[str, Path], folders: Iterable[str]) -> list[Pointer]:
    """Return the pointers among a folder's files.

    Args:
        files: Every file by its path relative to the target.
        folders: Every folder, relative to the target.
    """
    known = set(folders)
    found = []
    for name, path in files.items():
        above, _, short = name.rpartition("/")
        read = _POINTERS.get(short)
        if read is None:
            continue
        says = _read_line(path)
        if says is None:
            continue
        wanted = read(says)[0].rstrip("/")
        parts = wanted.split("/")
        inside = not wanted.startswith("/") and ".." not in parts and bool(wanted)
        if not inside:
            # An absolute path may be one of the machine that wrote it: its last part is looked for.
            wanted = parts[-1]
        target = f"{above}/{wanted}" if above else wanted
        there = target in files or target in known
        if not there and not (inside and _names_a_checkpoint(parts[-1])):
            continue
        found.append(Pointer(name=name, says=says, target=target, there=there))
    return found


def _names_a_checkpoint(name: str) -> bool:
    return step_of(name) is not None or looks_like_model_name(name)


def _read_line(path: Path) -> str | None:
    try:
        with ByteSource(path) as source:
            if not 0 < source.size <= _MAX_BYTES:
                return None
            text = source.read(0, source.size).decode("utf-8").strip()
    except (PathError, UnicodeDecodeError):
        return None
    return text if _LINE.fullmatch(text) else None


def dangling(pointer: Pointer, newest: str | None) -> Finding:
    """Return the finding for a pointer to something that is not there.

    Args:
        pointer: The pointer.
        newest: The newest whole checkpoint, where there is one.
    """
    advice = f"Resume from {newest} instead" if newest else "Fetch it again"
    return rule("FIL103").finding(
        f"{pointer.target} is named by {pointer.name} and is not there",
        where=Location(path=pointer.target),
        evidence={"listed_by": pointer.name, "says": pointer.says[:200]},
        remedy=f"{advice}: the save that {pointer.name} names did not end, or was removed.",
    )
