"""What was changed in the code of two runs: names of the files, and the lines where both are here.

A run's record holds digests of its files and no text. A file that is still where it was, with the
digest on record, is the text that ran.
"""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.diff.side import RunSide

_PREFIX: Final = "code."
#: Lines that are told of a file, characters of a line, and files that are told of.
MAX_LINES: Final = 24
MAX_COLUMNS: Final = 160
MAX_FILES: Final = 8
_MAX_BYTES: Final = 1024 * 1024


def with_lines(
    explained_by: Sequence[Mapping[str, Any]], a: RunSide, b: RunSide
) -> tuple[dict[str, Any], ...]:
    """Return the entries, those of code with what was changed.

    Each such entry gains `files`, the two paths as far as they are known, and `lines`, a unified
    diff without context, where both files hold what ran; else `lines_absent` says why not.
    """
    told = []
    num_files = 0
    for item in explained_by:
        entry = str(item.get("entry", ""))
        if entry.startswith(_PREFIX) and num_files < MAX_FILES:
            num_files += 1
            item = {**item, **_told(entry.removeprefix(_PREFIX), item, a, b)}
        told.append(dict(item))
    return tuple(told)


def _told(name: str, item: Mapping[str, Any], a: RunSide, b: RunSide) -> dict[str, Any]:
    paths = [_path_of(name, run) for run in (a, b)]
    told: dict[str, Any] = {"files": [None if path is None else str(path) for path in paths]}
    texts = [
        _text_of(path, digest)
        for path, digest in zip(paths, (item["before"], item["after"]), strict=True)
    ]
    lacking = [side for side, text in zip("AB", texts, strict=True) if text is None]
    one, other = texts
    if one is None or other is None:
        sides = " and ".join(lacking)
        return told | {"lines_absent": f"the file as it ran is not at hand of {sides}"}
    return told | {"lines": _lines(one, other)}


def _path_of(name: str, run: RunSide) -> Path | None:
    """Return where a file of the program's was; None where the record does not tell."""
    folder = (run.environment.get("process") or {}).get("folder")
    script = run.command[1] if len(run.command) > 1 else ""
    if not folder or not script or script in ("-c", "-"):
        return None
    main = Path(str(folder)) / script
    if name == "script":
        return main
    root = main.parent
    while (root / "__init__.py").is_file() and root != root.parent:
        root = root.parent
    return root / name


def _text_of(path: Path | None, digest: object) -> list[str] | None:
    """Return the lines of a file that is what ran, `[]` of one that was none; else None."""
    if digest is None:
        return []
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES).replace(b"\r\n", b"\n")
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest()[:16] != digest:
        return None
    return data.decode("utf-8", "replace").splitlines()


def _lines(a: list[str], b: list[str]) -> list[str]:
    changed = list(difflib.unified_diff(a, b, n=0, lineterm=""))[2:]
    shown = [line if len(line) <= MAX_COLUMNS else f"{line[: MAX_COLUMNS - 3]}..." for line in
             changed[:MAX_LINES]]  # fmt: skip
    if len(changed) > MAX_LINES:
        shown.append(f"and {len(changed) - MAX_LINES} more lines")
    return shown
