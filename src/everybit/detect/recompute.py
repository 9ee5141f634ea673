"""CMP702: an activation computed again by checkpointing is not the one computed first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Location
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from everybit.core.finding import Finding

#: So often a function has to repeat exactly before a mismatch is taken for a fault.
MIN_EXACT: Final = 3
_MAX_TOLD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """A checkpointed function whose two computations differ.

    Attributes:
        step: Updates finished or skipped before it.
        rank: Rank of the process.
        module: Qualified name of the module it belongs to, "" where unknown.
        function: Its own name.
        tensors: The saved tensors that differ, as dtype, shape and position.
        num_compared: How many tensors of this call were compared.
        num_exact: How often it has repeated exactly in this run.
        num_inexact: How often it has not, this time included.
    """

    step: int
    rank: int
    module: str
    function: str
    tensors: tuple[str, ...]
    num_compared: int
    num_exact: int
    num_inexact: int


def judge_recompute(found: Recompute) -> Finding:
    """Return CMP702 where the function has repeated exactly before or since, else CMP703."""
    repeats = found.num_exact >= MIN_EXACT
    evidence = {
        "function": found.function,
        "tensors": list(found.tensors[:_MAX_TOLD]),
        "num_tensors": len(found.tensors),
        "num_compared": found.num_compared,
        "repeated_exactly": found.num_exact,
        "repeated_inexactly": found.num_inexact,
        "verdict": "transient" if repeats else "nondeterministic",
    }
    where = Location(
        step=found.step,
        rank=found.rank,
        link=Link.FORWARD,
        module=found.module or None,
    )
    name = found.module or found.function
    if repeats:
        return rule("CMP702").finding(
            f"{name} gave other activations when checkpointing computed it again at step"
            f" {found.step}; it has repeated exactly {found.num_exact} times",
            where=where,
            evidence=evidence,
            certainty=Certainty.PROOF if found.num_inexact == 1 else Certainty.STRONG,
        )
    return rule("CMP703").finding(
        f"{name} gives other activations each time checkpointing computes it again",
        where=where,
        evidence=evidence,
    )
