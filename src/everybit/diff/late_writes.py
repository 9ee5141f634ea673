"""State that is written behind an update: averages of weights, for one.

An update is on record as the optimizer left everything. What a program writes behind it by itself
is in the checkpoint, and on record only when the next update is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from everybit.core.link import Link
from everybit.diff.roles import is_statistic

if TYPE_CHECKING:
    from everybit.core.observation import StepRecord, TensorTable
#: What the name of an optimizer state tensor holds and no parameter's name does.
STATE_MARK: Final = "::"


class Late(NamedTuple):
    """A step that left a state, but for what was written behind its update.

    Attributes:
        step: The step.
        names: What was written behind it.
    """

    step: int
    names: frozenset[str]

    def is_held(self, state: TensorTable, following: StepRecord) -> bool:
        """Whether the next update still found there what the state holds."""
        words, after = state.as_dict(), _words(following)
        return all(name in after and after[name] == words[name] for name in self.names)

    def is_read_late(self, following: StepRecord, begun: StepRecord | None) -> bool:
        """Whether it is running statistics that a forward pass moved before they were read.

        A program that calls parts of its model, and never the model, is first seen as a gradient
        comes back. Then statistics that went on from the right ones are right behind the next
        update; where the losses there differ, something else than them does: what is trained on
        makes no use of them.

        Args:
            following: The record of the next update in the run that holds the step.
            begun: The first record of the run that began with the state.
        """
        if begun is None or not all(is_statistic(name) for name in self.names):
            return False
        if _losses(following) != _losses(begun):
            return True
        mine, other = _words(begun), _words(following)
        return all(name in mine and mine[name] == other.get(name) for name in self.names)


def written_late(state: TensorTable, record: StepRecord) -> Late | None:
    """Return what of a state was written behind this update; None where it is not of this step.

    What the optimizer itself carries, parameters and moments, must be as the update left it.
    """
    words, left = state.as_dict(), _words(record)
    carried = {name for name in left if STATE_MARK in name}
    carried |= {name.rpartition(STATE_MARK)[2] for name in carried}
    other = {name for name, word in left.items() if words.get(name) != word}
    if not carried or not other or other & carried or not other <= words.keys():
        return None
    return Late(record.step, frozenset(other))


def _words(record: StepRecord) -> dict[str, int]:
    return {
        name: word
        for table in record.tables
        if table.link is Link.UPDATE
        for name, word in table.as_dict().items()
    }


def _losses(record: StepRecord) -> list[tuple[int, ...]]:
    return [tuple(table.words()) for table in record.tables if table.link is Link.LOSS]
