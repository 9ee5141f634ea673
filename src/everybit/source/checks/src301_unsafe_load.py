"""SRC301: loads of torch and its kin that run what the file says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.source.checks.old_torch import loads_by_default
from everybit.source.checks.unsafe_loads import WORDS as WORDS
from everybit.source.checks.unsafe_loads import standing_alone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.hit import Hit
    from everybit.source.module import Module

RULE_ID: Final = "SRC301"


def check(module: Module) -> Iterator[Hit]:
    """Yield the unsafe loads, but those that follow a refused one (SRC311)."""
    for load in standing_alone(module, RULE_ID):
        yield load.hit()
    by_default = loads_by_default(module)
    if by_default is not None:
        yield by_default.hit()
