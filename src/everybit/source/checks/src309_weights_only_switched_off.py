"""SRC309: the protection of `torch.load` switched off for a whole process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty
from everybit.source.checks.allowed_names import ALLOWING, asks_the_file, dangerous_names
from everybit.source.checks.patches import find_patches
from everybit.source.checks.switch_variable import (
    VARIABLE,
    set_in_code,
    set_in_magics,
    set_in_text,
)
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module
    from everybit.source.texts import Text

RULE_ID: Final = "SRC309"
WORDS: Final = (VARIABLE, "WEIGHTS_ONLY", "weights_only", "safe_globals", "load")
_SET: Final = f"{VARIABLE} is set: every load that does not say weights_only=True is unsafe"


def check(module: Module) -> Iterator[Hit]:
    """Yield what switches the protection off in Python code."""
    for node in set_in_code(module):
        yield Hit(
            rule=RULE_ID,
            node=node,
            message=_SET,
            evidence={"variable": VARIABLE},
            certainty=Certainty.PROOF,
        )
    for line in set_in_magics(module):
        yield Hit(
            rule=RULE_ID,
            line=line,
            message=_SET,
            evidence={"variable": VARIABLE},
            certainty=Certainty.PROOF,
        )
    for patch in find_patches(module):
        yield Hit(
            rule=RULE_ID,
            node=patch.node,
            message=f"{patch.target} is replaced for the whole process: the new one {patch.how}",
            evidence={"target": patch.target, "replacement": patch.how},
        )
    for site in module.calls():
        if site.name not in ALLOWING:
            continue
        names = dangerous_names(site)
        if names:
            yield Hit(
                rule=RULE_ID,
                node=site.node,
                message=f"{site.name} lets through what runs code: {', '.join(names)}",
                evidence={"names": list(names)},
                certainty=Certainty.PROOF,
            )
        elif asks_the_file(site):
            yield Hit(
                rule=RULE_ID,
                node=site.node,
                message=f"{site.name} lets through whatever the file itself names",
                evidence={"names": "get_unsafe_globals_in_checkpoint"},
            )


def check_text(text: Text) -> Iterator[Hit]:
    """Yield the lines of other text that set the variable."""
    for line, column in set_in_text(text):
        yield Hit(
            rule=RULE_ID,
            line=line,
            column=column,
            message=_SET,
            evidence={"variable": VARIABLE},
            certainty=Certainty.PROOF,
        )
