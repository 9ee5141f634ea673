"""What is in the batches: whether it is what the data set holds, and what the model can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.guard.contents.check import ContentsCheck
from everybit.guard.contents.inputs import InputsCheck

if TYPE_CHECKING:
    from everybit.core.config import Config
    from everybit.guard.check import Check

__all__ = ["ContentsCheck", "InputsCheck", "contents_checks"]


def contents_checks(config: Config, *, rank: int) -> list[Check]:
    """Return the checks of batches' contents that a configuration asks for.

    Args:
        config: Settings of the Guard.
        rank: Rank of this process.
    """
    contents = ContentsCheck(rank=rank)
    inputs = InputsCheck(
        rank=rank, record_of=contents.delivered.record_of, sources=contents.id_types
    )
    return [
        *([contents] if config.samples else []),
        *([inputs] if config.numerics else []),
    ]
