"""`# everybit: ignore[SRC301] reason`: what somebody decided to live with, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.source.reading import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMENT: Final = re.compile(
    r"#\s*everybit\s*:\s*ignore\b\s*(?:\[([^\]\n]*)\])?[ \t]*([^\r\n]*)", re.IGNORECASE
)
_RULE: Final = re.compile(r"[A-Z]{3}\d{3}")
#: Fewer letters say nothing.
_MIN_REASON: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One comment.

    Attributes:
        line: Where it stands, from 1.
        column: Where it begins, from 1.
        rules: The ids that it names.
        reason: Why, in the author's words.
        lines: The lines whose hits it speaks of.
    """

    line: int
    column: int
    rules: tuple[str, ...]
    reason: str
    lines: frozenset[int]

    @property
    def fault(self) -> str:
        """What is missing in it; empty where nothing is."""
        if not self.rules:
            return "names no rule, so it hides nothing: write `ignore[SRC301] reason`"
        if len(re.sub(r"\W", "", self.reason)) < _MIN_REASON:
            return "gives no reason"
        return ""


def suppresses(text: str) -> bool:
    """Return whether a text may hold such a comment."""
    return _COMMENT.search(text) is not None


def read_suppressions(
    text: str, comments: Iterable[tuple[int, int]] | None = None
) -> list[Suppression]:
    """Return the comments of a text that suppress something.

    Args:
        text: Code or other text.
        comments: `(line, column from 0)` of its real comments; None where any `#` begins one.
    """
    if not suppresses(text):
        return []
    lines = lines_of(text)
    real = set(comments) if comments is not None else None
    found = []
    for number, line in enumerate(lines, start=1):
        comment = _COMMENT.search(line)
        if comment is None:
            continue
        if real is not None and not any(
            at == number and column <= comment.start() for at, column in real
        ):
            continue  # in a string
        ids = tuple(dict.fromkeys(_RULE.findall((comment[1] or "").upper().replace(" ", ","))))
        alone = not line[: comment.start()].strip()
        found.append(
            Suppression(
                line=number,
                column=comment.start() + 1,
                rules=ids,
                reason=comment[2].strip(" \t-:#"),
                lines=frozenset({number, *_below(lines, number)} if alone else {number}),
            )
        )
    return found


def _below(lines: list[str], number: int) -> list[int]:
    """Return the first line of code below a comment that stands alone."""
    for index in range(number, min(number + 20, len(lines))):
        text = lines[index].strip()
        if text and not text.startswith("#"):
            return [index + 1]
    return []
