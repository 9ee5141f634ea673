"""SRC302: loads of pickle and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.source.checks.unsafe_loads import WORDS as WORDS
from everybit.source.checks.unsafe_loads import standing_alone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.hit import Hit
    from everybit.source.module import Module

RULE_ID: Final = "SRC302"


def check(module: Module) -> Iterator[Hit]:
    """Yield the unsafe loads, but those that follow a refused one (SRC311)."""
    for load in standing_alone(module, RULE_ID):
        yield load.hit()
