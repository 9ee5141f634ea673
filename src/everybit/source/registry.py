"""The checks: one file each in `checks`, found by its name, as rules are."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from everybit.source.hit import Hit
    from everybit.source.module import Module
    from everybit.source.texts import Text

_FILE_NAME: Final = re.compile(r"^src\d{3}_[a-z0-9_]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        rule: The id of its rule.
        words: One of these occurs in every file that it can hit; empty for any file.
        needs: Each of these matches in the text of every file that it can hit, whatever that one
            uses of other files.
        check: Reads Python code.
        check_text: Reads other text; None where it reads none.
    """

    rule: str
    words: tuple[str, ...]
    needs: tuple[re.Pattern[str], ...] = ()
    check: Callable[[Module], Iterator[Hit]]
    check_text: Callable[[Text], Iterator[Hit]] | None = None


@cache
def all_checks() -> tuple[Check, ...]:
    """Return all checks, by the id of their rule."""
    folder = Path(__file__).parent / "checks"
    stems = sorted(path.stem for path in folder.glob("*.py") if _FILE_NAME.match(path.stem))
    found = []
    for stem in stems:
        module = importlib.import_module(f"everybit.source.checks.{stem}")
        found.append(
            Check(
                rule=module.RULE_ID,
                words=tuple(getattr(module, "WORDS", ())),
                needs=tuple(map(re.compile, getattr(module, "NEEDS", ()))),
                check=module.check,
                check_text=getattr(module, "check_text", None),
            )
        )
    return tuple(found)
