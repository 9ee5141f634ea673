"""`# everybit: ignore[SRC301] reason`: what somebody decided to live with, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from everybit.core.rule import rule_ids
from everybit.source.reading import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMENT: Final = re.compile(
    r"#\s*everybit\s*:\s*ignore\b\s*(?:\[([^\]\n]*)\])?[ \t]*([^\r\n]*)", re.IGNORECASE
)
#: Fewer letters say nothing.
_MIN_REASON: Final = 3
_MAX_SHOWN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One comment.

    Attributes:
        line: Where it stands, from 1.
        column: Where it begins, from 1.
        rules: The ids that it names.
        unknown: What it names besides, which is no rule.
        reason: Why, in the author's words.
        lines: The lines whose hits it speaks of.
    """

    line: int
    column: int
    rules: tuple[str, ...]
    unknown: tuple[str, ...]
    reason: str
    lines: frozenset[int]

    @property
    def fault(self) -> str:
        """What is missing in it; empty where nothing is."""
        if self.unknown:
            return f"names {self.unknown[0]}, which is no rule of lint's: that hides nothing"
        if not self.rules:
            return "names no rule, so it hides nothing: write `ignore[SRC301] reason`"
        if len(re.sub(r"\W", "", self.reason)) < _MIN_REASON:
            return "gives no reason"
        return ""


@cache
def _known() -> frozenset[str]:
    return frozenset(name for name in rule_ids() if name.startswith("SRC"))


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
    real = dict(comments) if comments is not None else None
    found = []
    for number, line in enumerate(lines, start=1):
        if real is not None and number not in real:
            continue  # where such words stand, they are in a string
        comment = _COMMENT.search(line, real[number] if real is not None else 0)
        if comment is None:
            continue
        named = tuple(dict.fromkeys(re.findall(r"[^\s,;]+", (comment[1] or "").upper())))
        ids = tuple(each for each in named if each in _known())
        alone = not line[: comment.start()].strip()
        found.append(
            Suppression(
                line=number,
                column=comment.start() + 1,
                rules=ids,
                unknown=tuple(each[:_MAX_SHOWN] for each in named if each not in ids),
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
