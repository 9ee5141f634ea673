"""Files that two programs read before their first step, as one section of their environments.

A file that both read and that is not the same can do anything that code can. One that only one of
them read counts where both records begin with the program; a Guard that a script made late does not
know what was read before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.verdict import Skipped

if TYPE_CHECKING:
    from everybit.diff.side import RunSide

#: The section's name in an environment.
SECTION: Final = "files"
_WHAT: Final = "files read before the first step"


def with_read_files(a: RunSide, b: RunSide) -> tuple[RunSide, RunSide, list[Skipped]]:
    """Return both runs with the files in their environments, and what cannot be compared of them.

    Each side's `read_files` is what its record holds: `files` (digest by name), `whole` (it
    listened from the start of the program) and `more` (read and not on record); None with none.
    """
    found, skipped = comparable(a.read_files, b.read_files)
    if found is None:
        return a, b, skipped
    return _with(a, found[0]), _with(b, found[1]), skipped


def comparable(
    a: Mapping[str, Any] | None, b: Mapping[str, Any] | None
) -> tuple[tuple[dict[str, str], dict[str, str]] | None, list[Skipped]]:
    """Return what can be compared of the files that two programs read, and what cannot.

    Args:
        a: What the record of A holds, as `RunSide.read_files`; None with nothing.
        b: What that of B does.

    Returns:
        The digests of both by name, None where a side has none on record; and what was left out.
    """
    one, other = _files(a), _files(b)
    if one is None or other is None:
        lacking = [name for name, files in (("A", one), ("B", other)) if files is None]
        if len(lacking) > 1 or not (one or other):
            return None, []
        why = f"{lacking[0]}: not recorded"
        return None, [Skipped(what=_WHAT, why=why, promised=False)]
    whole = all((each or {}).get("whole") is True for each in (a, b))
    full = not any((each or {}).get("more") for each in (a, b))
    skipped = []
    if not (whole and full):
        alone = sorted({*one} ^ {*other})
        if alone:
            shown = ", ".join(alone[:3]) + (f" and {len(alone) - 3} more" if alone[3:] else "")
            late = "more were read than are kept" if whole else "a Guard began after the program"
            why = f"read in one run only, as far as it is on record ({late}): {shown}"
            skipped.append(Skipped(what=_WHAT, why=why, promised=False))
        one, other = ({name: side[name] for name in side if name not in alone}
                      for side in (one, other))  # fmt: skip
    return (one, other), skipped


def _files(told: Mapping[str, Any] | None) -> dict[str, str] | None:
    files = told.get("files") if isinstance(told, Mapping) else None
    if not isinstance(files, Mapping):
        return None
    return {str(name): str(digest) for name, digest in files.items()}


def _with(run: RunSide, files: Mapping[str, str]) -> RunSide:
    return replace(run, environment={**run.environment, SECTION: dict(files)})
