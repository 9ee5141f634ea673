"""Which checks can hit a file at all, told from words in its text and in what it imports."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from everybit.source.registry import Check

#: So few files are all parsed: what they import may not be among them.
_FEW: Final = 24
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([^#\n(]*|\([^)]*\))|import[ \t]+([^#\n]+))",
    re.MULTILINE,
)
_NAMED: Final = re.compile(
    r"^([ \t]*)(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)|^(\w+)[ \t]*[:=]", re.MULTILINE
)
_WORD: Final = re.compile(r"\w+")
#: A wrapper of a wrapper of a wrapper.
_ROUNDS: Final = 3
#: Occurrences of one word in one file that are looked at.
_MAX_FOUND: Final = 2_000


def holds(text: str, words: Sequence[str]) -> bool:
    """Return whether one of the words occurs in a text; true where there are none."""
    return not words or any(word in text for word in words)


def choose_checks(files: Sequence[tuple[Path, str]], checks: Sequence[Check]) -> list[list[Check]]:
    """Return for each file the checks that are worth running.

    A file in which no word of a check occurs can still call a wrapper that lies in another one:
    it is chosen as well where it imports that one and names what holds the word there.

    Args:
        files: `(path, text)` of each.
        checks: All of them.
    """
    if len(files) <= _FEW:
        return [list(checks) for _ in files]
    told = [_File(path, text) for path, text in files]
    chosen: list[list[Check]] = [[] for _ in files]
    known: dict[tuple[str, ...], list[bool]] = {}
    for check in checks:
        if check.words not in known:
            known[check.words] = _holding(told, check.words)
        for place, each in enumerate(known[check.words]):
            if each and all(need.search(files[place][1]) for need in check.needs):
                chosen[place].append(check)
    return chosen


class _File:
    """What the text of one file says without being parsed."""

    def __init__(self, path: Path, text: str) -> None:
        self.text = text
        self.stem = path.parent.name if path.stem == "__init__" else path.stem
        self.words = frozenset(_WORD.findall(text))
        self.imported = frozenset(
            word
            for match in _IMPORT.finditer(text)
            for part in match.groups()
            if part
            for word in _WORD.findall(part)
        )
        self._named: list[tuple[int, bool, str]] | None = None

    def names_around(self, pattern: re.Pattern[str]) -> set[str]:
        """Return the functions, classes and globals in which a pattern occurs."""
        if self._named is None:
            self._named = [
                (found.start(), not found[1], found[2] or found[3])
                for found in _NAMED.finditer(self.text)
            ]
        starts = [start for start, _, _ in self._named]
        names: set[str] = set()
        for number, found in enumerate(pattern.finditer(self.text)):
            if number == _MAX_FOUND:
                names.update(name for _, _, name in self._named)
                break
            place = bisect_right(starts, found.start()) - 1
            # The nearest one, and what that lies in itself: a method and its class.
            for index in range(place, max(place - 200, -1), -1):
                _, is_outermost, name = self._named[index]
                if index == place or is_outermost:
                    names.add(name)
                if is_outermost:
                    break
        return names


def _holding(files: Sequence[_File], words: tuple[str, ...]) -> list[bool]:
    """Return which files hold one of the words, or something of another file that does."""
    has = [holds(file.text, words) for file in files]
    if not words:
        return has
    pattern = re.compile("|".join(map(re.escape, words)))
    exported: dict[str, set[str]] = {}
    for file, each in zip(files, has, strict=True):
        if each:
            exported.setdefault(file.stem, set()).update(file.names_around(pattern))
    for _ in range(_ROUNDS):
        new: dict[str, set[str]] = {}
        for place, file in enumerate(files):
            if has[place]:
                continue
            named = {
                name
                for stem in file.imported & exported.keys()
                for name in exported[stem] & file.words
            }
            if named:
                has[place] = True
                around = re.compile(rf"\b(?:{'|'.join(map(re.escape, named))})\b")
                new.setdefault(file.stem, set()).update(file.names_around(around))
        if not new:
            break
        exported = new
    return has
