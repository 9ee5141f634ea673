"""`lint`: is this training code at risk, told from its source alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.errors import PathError, UsageError
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.source.baseline import check_place, read_baseline, without_known, write_baseline
from everybit.source.linting import lint_files
from everybit.source.walking import walk_files

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from everybit.source.linting import Linted, Told
    from everybit.source.mending import Mended
    from everybit.source.walking import Found


def lint(
    *paths: str | os.PathLike[str],
    exclude: Sequence[str] = (),
    fix: bool = False,
    diff: bool = False,
    baseline: str | os.PathLike[str] | None = None,
    update_baseline: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Verdict:
    """Look for unsafe loads and saves, and for training code that goes wrong without a word.

    Python files and notebooks are parsed, shell scripts, YAML, Dockerfiles and `.env` files read
    for the variables they set. Nothing is imported or executed.

    Args:
        paths: Files and folders.
        exclude: Patterns of names, and of paths below a folder, that are left out.
        fix: Make the fixes that are certain, in the files. Needs libcst.
        diff: Tell those fixes as a diff, in the verdict's `stats["diff"]`; write nothing.
        baseline: A file of known findings, which are not told again.
        update_baseline: Write what is found to `baseline`, in place of what it held.
        progress: Is told the number of files done.

    Returns:
        The verdict. `inconclusive` where a file could not be parsed.

    Raises:
        PathError: A path cannot be opened, or the baseline or a fixed file not be written.
        UsageError: The options contradict each other, the baseline is none, or libcst is missing.
    """
    if not paths:
        raise PathError("nothing to lint", todo="name a file or a folder")
    if fix and diff:
        raise UsageError("a fix is made or shown", todo="give one of fix and diff")
    if update_baseline and baseline is None:
        raise UsageError("no baseline to write", todo="name its file with --baseline")
    if fix or diff:
        from everybit.source.fixing import require_libcst

        require_libcst()
    known = Path(baseline) if baseline is not None else None
    if known is not None and update_baseline:
        check_place(known)
    counts = read_baseline(known) if known is not None and not update_baseline else None
    began = time.perf_counter()
    look = _look(paths, exclude, progress)
    linted, stats = look(), {}
    if known is not None and counts is None:
        write_baseline(known, linted.told)
        counts = read_baseline(known)
    told, more = _new(linted, counts, known)
    if fix or diff:
        changed, refused = _mend(linted, told, paths, write=fix)
        stats.update(changed)
        if fix and changed["fixed_files"]:
            linted = look()
            told, more = _new(linted, counts, known)
        linted.skipped += refused
    counted = {"suppressed": linted.suppressed, **more}
    checked = tuple(Checked(what=what, count=number) for what, number in linted.checked.items())
    return Verdict(
        command="lint",
        target=tuple(str(path) for path in paths),
        findings=tuple(each.finding for each in told),
        coverage=Coverage(checked=checked, skipped=tuple(linted.skipped)),
        stats={
            **{name: number for name, number in counted.items() if number},
            **stats,
            "bytes": linted.num_bytes,
            "seconds": time.perf_counter() - began,
        },
    )


def _look(
    paths: Sequence[str | os.PathLike[str]],
    exclude: Sequence[str],
    progress: Callable[[int], None],
) -> Callable[[], Linted]:
    """Return what lints the paths, after testing that they are there."""
    targets = list(dict.fromkeys(map(Path, paths)))
    for target in targets:
        try:
            target.stat()
        except OSError as error:
            raise PathError.from_os_error(error, target) from error
    skipped: list[Skipped] = []
    files = {
        _place(found.path): found
        for target in targets
        for found in walk_files(target, exclude, relative=len(targets) == 1, passed_over=skipped)
    }

    def look() -> Linted:
        linted = lint_files(list(files.values()), roots=_roots(paths), progress=progress)
        linted.skipped[:0] = skipped
        return linted

    return look


def _place(path: Path) -> Path:
    """Return where a file lies; of a link in a circle the link, which then cannot be read."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def _roots(paths: Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    targets = map(Path, paths)
    return tuple(target if target.is_dir() else target.parent for target in targets)


def _new(linted: Linted, counts: Any, known: Path | None) -> tuple[list[Told], dict[str, int]]:
    if counts is None or known is None:
        return linted.told, {}
    told, num_known, num_gone = without_known(linted.told, counts, known)
    return told, {"known": num_known, "known_and_gone": num_gone}


def _mend(
    linted: Linted,
    told: Sequence[Told],
    paths: Sequence[str | os.PathLike[str]],
    *,
    write: bool,
) -> tuple[dict[str, Any], list[Skipped]]:
    from everybit.source.mending import mend

    mended, refused = mend(linted, told, _roots(paths), named=[Path(path) for path in paths])
    if write:
        mended = _write(mended, refused)
    stats = {
        "fixed_files" if write else "fixable_files": len(mended),
        "diff": "".join(each.diff for each in mended),
    }
    skipped = [
        Skipped(what=f"fixing {found.shown}", why=why, promised=False) for found, why in refused
    ]
    return stats, skipped


def _write(mended: list[Mended], refused: list[tuple[Found, str]]) -> list[Mended]:
    """Write the files; return those that were, and add the others to `refused`."""
    written: list[Mended] = []
    for each in mended:
        try:
            why = each.write()
        except PathError as error:
            if not written:
                raise
            done = f"{len(written)} other file{'s' * (len(written) > 1)} fixed before it"
            todo = f"{done}; {error.todo}" if error.todo else done
            raise PathError(error.what, where=error.where, todo=todo) from error
        if why:
            refused.append((each.found, why))
        else:
            written.append(each)
    return written
