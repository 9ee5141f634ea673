"""What this rank has to show of one step, kept until the other ranks' digests have come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.core.grid import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.grid import GridSums, Words
    from everybit.guard.question import AnyMarks
    from everybit.guard.replicas.layout import Layout
    from everybit.guard.state import CarriedState
    from everybit.guard.tracked import Tracked

    Sums = Callable[[int], GridSums]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a tensor is, and the sums of its bytes as the step left them."""

    marks: AnyMarks
    index: int
    sums: Sums

    @property
    def item(self) -> Tracked:
        """The tensor."""
        return self.marks.tracked[self.index]

    def block_bytes(self, blocks: Sequence[int]) -> bytes:
        """Return the bytes of some blocks of the grid, one after another."""
        data = self.marks.memories[self.index].bytes_()
        return b"".join(
            data[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES].tobytes() for block in blocks
        )


@dataclass(eq=False)
class Snapshot:
    """The digests of one step, in the order of a layout.

    Attributes:
        step: The update that was just finished or skipped.
        layout: What the digests are of.
        words: uint64, shape `(columns,)`.
        known: What this rank's other checks have found damaged.
        lasting: The tensors are as the step left them for as long as this is kept: the ranks wait
            for the answer. Else only their sums are.
    """

    step: int
    layout: Layout
    words: Words
    known: frozenset[str]
    lasting: bool
    _kept: Sequence[tuple[AnyMarks, Sums]] = field(default_factory=list)

    def keep(self, state: CarriedState) -> None:
        """Keep the sums of everything under marks."""
        self._kept = [
            (each, each.sums if self.lasting else each.frozen()) for each in state.all_marks()
        ]

    def freeze(self) -> None:
        """Keep the sums as they are: the ranks go on without an answer."""
        if self.lasting:
            self.lasting = False
            self._kept = [(each, each.frozen()) for each, _ in self._kept]

    def let_go(self) -> None:
        """Keep the sums no longer: only digests are left."""
        self._kept = []

    def place(self, name: str) -> Place | None:
        """Return where a tensor is, by its name in the tables; None where its sums are gone."""
        for marks, sums in self._kept:
            for index, item in enumerate(marks.tracked):
                if item.label == name:
                    return Place(marks, index, sums)
        return None
