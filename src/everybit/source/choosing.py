"""Which checks can hit a file at all, told from words in its text and in what it imports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from everybit.source.registry import Check

#: So few files are all parsed: what they import may not be among them.
_FEW: Final = 50
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([^#\n(]*|\([^)]*\))|import[ \t]+([^#\n]+))",
    re.MULTILINE,
)
_WORD: Final = re.compile(r"\w+")
#: A wrapper of a wrapper of a wrapper.
_ROUNDS: Final = 3


def holds(text: str, words: Sequence[str]) -> bool:
    """Return whether one of the words occurs in a text; true where there are none."""
    return not words or any(word in text for word in words)


def choose_checks(files: Sequence[tuple[Path, str]], checks: Sequence[Check]) -> list[list[Check]]:
    """Return for each file the checks that are worth running.

    A file in which no word of a check occurs can still call a wrapper that lies in another one:
    it is chosen as well where it imports a file that was.

    Args:
        files: `(path, text)` of each.
        checks: All of them.
    """
    if len(files) <= _FEW:
        return [list(checks) for _ in files]
    names = [_imported(text) for _, text in files]
    stems = [path.parent.name if path.stem == "__init__" else path.stem for path, _ in files]
    chosen: list[list[Check]] = [[] for _ in files]
    for check in checks:
        has = [holds(text, check.words) for _, text in files]
        for _ in range(_ROUNDS):
            given = {stem for stem, each in zip(stems, has, strict=True) if each}
            more = [each or bool(given & name) for each, name in zip(has, names, strict=True)]
            if more == has:
                break
            has = more
        for place, each in enumerate(has):
            if each:
                chosen[place].append(check)
    return chosen


def _imported(text: str) -> set[str]:
    """Return the words of the import statements of a text."""
    return {
        word
        for match in _IMPORT.finditer(text)
        for part in match.groups()
        if part
        for word in _WORD.findall(part)
    }
