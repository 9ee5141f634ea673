"""`scan`: may this be loaded; what would loading it do."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.making import made
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.files.outcome import Outcome
from everybit.files.scans.held import open_file
from everybit.files.scans.scanning import scan_file
from everybit.files.source import FolderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.source import ByteSource


def _to_nobody(num_files: int) -> None:
    """Tell nobody that `num_files` more were looked into."""


def scan(*paths: str | os.PathLike[str], progress: Callable[[int], None] = _to_nobody) -> Verdict:
    """Tell what loading files would do, without loading, importing or executing anything.

    Every file is looked into by its content: pickles wherever they lie, archives in archives,
    compressed streams, configs that ask for code. Only pickles and headers are read.

    Args:
        paths: Files and folders. A folder means every file in it.
        progress: Is told the number of files looked into, as they are.

    Returns:
        The verdict: PKL201 what runs code or touches files, network or processes; PKL202 what is
        not known; PKL203 what is shaped to deceive, or cannot be looked into; PKL204 what
        `torch.load(weights_only=True)` refuses; PKL205 code that comes with a model.

    Raises:
        PathError: A path cannot be opened.
    """
    if not paths:
        raise PathError("nothing to scan", todo="name a file or a folder")
    began = time.perf_counter()
    if len(paths) == 1:
        total = _scan_given(paths[0], progress)
    else:
        total = Outcome()
        for path in dict.fromkeys(map(Path, paths)):
            total.add(_scan_given(path, progress))
    verdict = made(
        Verdict,
        command="scan",
        target=tuple(map(str, paths)),
        findings=tuple(total.findings),
        coverage=_as_coverage(tuple(total.checked.items()), tuple(total.skipped)),
        stats={
            "bytes": total.num_bytes,
            "files": total.checked.get("files", 0),
            "seconds": time.perf_counter() - began,
        },
    )
    if len(total.findings) > 1:
        verdict.__post_init__()
    return verdict


@lru_cache(maxsize=256)  # of many small files the same is said
def _as_coverage(counts: tuple[tuple[str, int], ...], skipped: tuple[Skipped, ...]) -> Coverage:
    checked = tuple([Checked(what=what, count=number) for what, number in counts])
    return Coverage(checked=checked, skipped=skipped)


def _scan_given(given: str | os.PathLike[str], progress: Callable[[int], None]) -> Outcome:
    where = os.fspath(given)
    # Building a path would take longer than a small scan.
    name = where.rpartition("/")[2] if os.sep == "/" else os.path.basename(where)  # noqa: PTH119
    if name in ("", ".", ".."):
        where, name = str(Path(where)), Path(where).name
    try:
        source = open_file(where)
    except FolderError:
        return _scan_folder(Path(where), progress)
    outcome = _scan_one(source, name, named=True)
    progress(1)
    return outcome


def _scan_folder(path: Path, progress: Callable[[int], None]) -> Outcome:
    from everybit.files.scans.beside import find_code_beside
    from everybit.files.scans.folders import list_folder

    total = Outcome()
    folder = list_folder(path)
    total.skipped += folder.skipped
    if not folder.files and not folder.skipped:
        total.skipped.append(Skipped(what=str(path), why="it holds no file"))
    total.findings += find_code_beside(folder.files)
    for name, place in folder.files.items():
        try:
            total.add(_scan_one(open_file(os.fspath(place)), name, named=False))
        except PathError as error:
            total.skipped.append(Skipped(what=name, why=f"it cannot be read: {error.what}"))
        progress(1)
    return total


def _scan_one(source: ByteSource, name: str, *, named: bool) -> Outcome:
    try:
        outcome = scan_file(source, name, named=named)
        outcome.num_bytes += source.size
        if source.changed():
            raise PathError("changed while it was read", where=str(source.path), todo="try again")
    finally:
        source.close()
    return outcome
