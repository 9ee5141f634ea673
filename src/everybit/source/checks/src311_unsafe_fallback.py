"""SRC311: a refused load that is tried again without protection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.source.checks.unsafe_loads import WORDS as WORDS
from everybit.source.checks.unsafe_loads import fallbacks
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC311"


def check(module: Module) -> Iterator[Hit]:
    """Yield the unsafe loads that follow one that failed."""
    for load, follows in fallbacks(module).items():
        caught = follows.caught or "anything"
        line = follows.first.lineno
        how = (
            "tried again with False where True was refused"
            if follows.first is load.node
            else f"what happens where the load in line {line} is refused"
        )
        yield Hit(
            rule=RULE_ID,
            node=load.node,
            message=f"The unsafe load by {load.loader} is {how}: any file can make it so",
            evidence={
                "loader": load.loader,
                "first_load": " ".join(module.source(follows.first).split())[:160],
                "first_line": line,
                "caught": caught,
                **load.evidence,
            },
            certainty=load.certainty,
        )
