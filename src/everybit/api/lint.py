"""`lint`: is this training code at risk, told from its source alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.verdict import Checked, Coverage, Verdict
from everybit.source.linting import lint_files
from everybit.source.walking import walk_files

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence


def lint(
    *paths: str | os.PathLike[str],
    exclude: Sequence[str] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> Verdict:
    """Look for unsafe loads and saves, and for training code that goes wrong without a word.

    Python files and notebooks are parsed, shell scripts, YAML, Dockerfiles and `.env` files read
    for the variables they set. Nothing is imported or executed.

    Args:
        paths: Files and folders.
        exclude: Patterns of names, and of paths below a folder, that are left out.
        progress: Is told the number of files done.

    Returns:
        The verdict. `inconclusive` where a file could not be parsed.

    Raises:
        PathError: A path cannot be opened.
    """
    if not paths:
        raise PathError("nothing to lint", todo="name a file or a folder")
    began = time.perf_counter()
    targets = [Path(path) for path in dict.fromkeys(map(Path, paths))]
    for target in targets:
        try:
            target.stat()
        except OSError as error:
            raise PathError.from_os_error(error, target) from error
    alone = len(targets) == 1
    files = {
        found.path.resolve(): found
        for target in targets
        for found in walk_files(target, exclude, relative=alone)
    }
    roots = tuple(target if target.is_dir() else target.parent for target in targets)
    linted = lint_files(list(files.values()), roots=roots, progress=progress)
    checked = tuple(Checked(what=what, count=number) for what, number in linted.checked.items())
    return Verdict(
        command="lint",
        target=tuple(str(path) for path in paths),
        findings=tuple(told.finding for told in linted.told),
        coverage=Coverage(checked=checked, skipped=tuple(linted.skipped)),
        stats={
            "files": len(files),
            "suppressed": linted.suppressed,
            "bytes": linted.num_bytes,
            "seconds": time.perf_counter() - began,
        },
    )
