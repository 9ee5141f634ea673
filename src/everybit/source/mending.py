"""Fix files: the new text is linted again before it is believed, and written whole or not."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.atomic import write_atomically
from everybit.source.fixing import apply_fixes
from everybit.source.linting import lint_files
from everybit.source.reading import Refused, SourceFile, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from everybit.source.linting import Linted, Told
    from everybit.source.walking import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A file with its fixes made.

    Attributes:
        found: The file.
        before: Its text.
        after: The new text.
        encoding: Of both.
        what: What was done, one clause a fix.
    """

    found: Found
    before: str
    after: str
    encoding: str
    what: tuple[str, ...]

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        name = self.found.shown
        lines = difflib.unified_diff(
            _lines(self.before),
            _lines(self.after),
            f"a/{name.lstrip('/')}",
            f"b/{name.lstrip('/')}",
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )

    def write(self) -> str:
        """Put the new text in the file's place.

        Returns:
            Why it was not done; empty where it was.

        Raises:
            PathError: It cannot be written; the old text is untouched.
        """
        path = self.found.path
        try:
            now = path.read_bytes()
        except OSError as error:
            return f"it cannot be read again ({(error.strerror or str(error)).lower()})"
        if now != self.before.encode(self.encoding):
            return "it has changed meanwhile"
        write_atomically(path, self.after.encode(self.encoding))
        return ""


def _lines(text: str) -> list[str]:
    """Return the lines of a text as `patch` counts them: a form feed ends none."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def mend(
    linted: Linted,
    told: Sequence[Told],
    roots: tuple[Path, ...],
    *,
    named: Sequence[Path] = (),
) -> tuple[list[Mended], list[tuple[Found, str]]]:
    """Return the files as the fixes make them, and those that cannot be fixed, with why.

    A new text is taken only where linting it again finds nothing new, and nothing fixed again.

    Args:
        linted: What the checks came to.
        told: The findings to fix.
        roots: Folders that were asked about.
        named: Files that were asked about by their own name, links too.
    """
    by_file: dict[Path, list[Told]] = {}
    for each in told:
        if each.fix is not None:
            by_file.setdefault(each.found.path, []).append(each)
    mended: list[Mended] = []
    refused: list[tuple[Found, str]] = []
    for path, wanted in by_file.items():
        file = linted.files.get(path)
        found = wanted[0].found
        new: Mended | str = _closed(found, roots, named)
        if not new:
            new = _mended(found, file, wanted) if file is not None else "it was not parsed"
        if isinstance(new, Mended):
            why = _doubt(linted, new, wanted, roots)
            if not why:
                mended.append(new)
                continue
        else:
            why = new
        refused.append((found, why))
    return mended, refused


def _closed(found: Found, roots: Sequence[Path], named: Sequence[Path]) -> str:
    """Return why a file is not ours to write; empty where it is."""
    path = found.path
    if path.is_symlink() and path not in named:
        place = path.resolve()
        if not any(place.is_relative_to(root.resolve()) for root in roots):
            return f"it is a link to {place}, outside of what was named"
    if not path.stat().st_mode & 0o222:
        return "it is read-only"
    return ""


def _mended(found: Found, file: SourceFile, wanted: Sequence[Told]) -> Mended | str:
    """Return a file with its fixes made, or why they cannot be."""
    read = read_text(found.path)
    if isinstance(read, Refused):
        return read.why
    before, encoding = read
    fixes = [each.fix for each in wanted if each.fix is not None]
    if file.cells is not None:
        from everybit.source.notebook_fixing import fix_notebook

        after = fix_notebook(before, file, fixes)
        if after is None:
            return "the notebook would not keep its form"
    else:
        if before != file.text:
            return "it has changed meanwhile"
        after = apply_fixes(before, fixes)
        if after is None:
            return "a place was not found again"
    try:
        after.encode(encoding)
    except UnicodeError:
        return f"the new text does not fit its encoding ({encoding})"
    what = tuple(dict.fromkeys(fix.what for fix in fixes))
    return Mended(found=found, before=before, after=after, encoding=encoding, what=what)


def _doubt(linted: Linted, new: Mended, wanted: Sequence[Told], roots: tuple[Path, ...]) -> str:
    """Return why a new text is not believed; empty where it is."""
    again = lint_files([new.found], roots=roots, texts={new.found.path.resolve(): new.after})
    if again.skipped:
        return again.skipped[0].why
    before = [each for each in linted.told if each.found.path == new.found.path]
    more = Counter(each.finding.rule for each in again.told)
    more.subtract(each.finding.rule for each in before)
    if any(number > 0 for number in more.values()):
        return "linted again, the new text has other findings"
    left = sum(each.fix is not None for each in again.told)
    if left > sum(each.fix is not None for each in before) - len(wanted):
        return "linted again, the new text has the same findings"
    return ""
