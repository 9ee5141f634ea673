"""Which checks can hit a file at all, told from words in its text and in what it imports."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from everybit.source.registry import Check

#: So few files are all parsed: what they import may not be among them.
_FEW: Final = 24
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|(?:[^#\n(\\]|\\\r?\n)*)"
    r"|import[ \t]+([^#\n]+))",
    re.MULTILINE,
)
_NAMED: Final = re.compile(
    r"^([ \t]*)(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)|^(\w+)[ \t]*[:=]", re.MULTILINE
)
_WORD: Final = re.compile(r"\w+")
#: `pkg.tools.fetch`: what it begins with, and all behind it.
_CHAIN: Final = re.compile(r"(?<![\w.])(\w+)((?:\.\w+){2,})")
#: `name` or `name as other` of an import.
_BROUGHT: Final = re.compile(r"(\*|\w+)(?:\s+as\s+(\w+))?")
_REMARK: Final = re.compile(r"#[^\n]*")
#: A wrapper of a wrapper of a wrapper, each handed on by the packages that it lies in.
_ROUNDS: Final = 8
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
    by_source: dict[str, list[int]] = {}
    for place, each in enumerate(told):
        for stem in each.sources:
            by_source.setdefault(stem, []).append(place)
    chosen: list[list[Check]] = [[] for _ in files]
    known: dict[tuple[str, ...], list[bool]] = {}
    for check in checks:
        if check.words not in known:
            known[check.words] = _holding(told, check.words, by_source)
        for place, holding in enumerate(known[check.words]):
            if holding and all(need.search(files[place][1]) for need in check.needs):
                chosen[place].append(check)
    return chosen


class _File:
    """What the text of one file says without being parsed."""

    def __init__(self, path: Path, text: str) -> None:
        self.text = text
        self.stem = path.parent.name if path.stem == "__init__" else path.stem
        self.words = frozenset(_WORD.findall(text))
        #: Modules that it may take a name from, by the last word of theirs.
        self.sources: set[str] = set()
        #: `[(words of the module, {name there: name here})]` of each `from` import.
        self.brought: list[tuple[frozenset[str], dict[str, str]]] = []
        for module, names, whole in _IMPORT.findall(text):
            self.sources.update(_WORD.findall(f"{module} {names} {whole}"))
            if not whole:
                found = _BROUGHT.findall(_REMARK.sub("", names))
                given = {name: other or name for name, other in found}
                stems = _WORD.findall(module) or [path.parents[len(module) - 1].name]
                self.brought.append((frozenset(stems), given))
        for head, rest in _CHAIN.findall(text):
            if head in self.sources:
                self.sources.update(rest.split(".")[1:-1])
        self._named: list[tuple[int, bool, str]] | None = None
        self._starts: list[int] = []
        self._places: dict[str, list[int]] | None = None

    def handed_on(self, exported: Mapping[str, set[str]]) -> set[str]:
        """Return the names, of those that other files have, that importing this one gives too."""
        found: set[str] = set()
        for module, given in self.brought:
            names = {name for stem in module & exported.keys() for name in exported[stem]}
            if "*" in given:
                found |= names
            for name, here in given.items():
                if name in names:
                    found.add(here)
                found |= exported.get(name, set())  # the module itself, under whatever name
        return found

    def names_around(self, pattern: re.Pattern[str]) -> set[str]:
        """Return the functions, classes and globals in which a pattern occurs."""
        return self._around(found.start() for found in pattern.finditer(self.text))

    def names_around_words(self, words: Iterable[str]) -> set[str]:
        """Return the functions, classes and globals in which one of these words stands."""
        if self._places is None:
            self._places = {}
            for found in _WORD.finditer(self.text):
                self._places.setdefault(found[0], []).append(found.start())
        places = self._places
        return self._around(place for word in words for place in places.get(word, ()))

    def _around(self, places: Iterable[int]) -> set[str]:
        if self._named is None:
            self._named = [
                (found.start(), not found[1], found[2] or found[3])
                for found in _NAMED.finditer(self.text)
            ]
            self._starts = [start for start, _, _ in self._named]
        names: set[str] = set()
        seen: set[int] = set()
        for number, found in enumerate(places):
            if number == _MAX_FOUND:
                names.update(name for _, _, name in self._named)
                break
            place = bisect_right(self._starts, found) - 1
            if place in seen:
                continue
            seen.add(place)
            # The nearest one, and what that lies in itself: a method and its class.
            for index in range(place, max(place - 200, -1), -1):
                _, is_outermost, name = self._named[index]
                if index == place or is_outermost:
                    names.add(name)
                if is_outermost:
                    break
        return names


def _holding(
    files: Sequence[_File], words: tuple[str, ...], by_source: Mapping[str, Sequence[int]]
) -> list[bool]:
    """Return which files hold one of the words, or something of another file that does."""
    has = [holds(file.text, words) for file in files]
    if not words:
        return has
    pattern = re.compile("|".join(map(re.escape, words)))
    exported: dict[str, set[str]] = {}
    for file, each in zip(files, has, strict=True):
        if each:
            exported.setdefault(file.stem, set()).update(file.names_around(pattern))
    new = {stem: set(names) for stem, names in exported.items()}
    for _ in range(_ROUNDS):
        found: dict[str, set[str]] = {}
        for place in sorted({place for stem in new for place in by_source.get(stem, ())}):
            file = files[place]
            named = {name for stem in file.sources & new.keys() for name in new[stem] & file.words}
            handed_on = file.handed_on(new)
            if named:
                has[place] = True
                handed_on |= file.names_around_words(named)
            handed_on -= exported.get(file.stem, set())
            if handed_on:
                found.setdefault(file.stem, set()).update(handed_on)
        if not found:
            break
        for stem, names in found.items():
            exported.setdefault(stem, set()).update(names)
        new = found
    return has
