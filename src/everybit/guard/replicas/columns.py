"""What this rank shows of a step: the columns, and the gradients among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everybit.guard.replicas.block_sums import Rounding
from everybit.guard.replicas.declared import Declared
from everybit.guard.replicas.layout import Layout, layout_of
from everybit.guard.replicas.reduced import Reduced
from everybit.guard.replicas.scattered import ScatteredReduction

if TYPE_CHECKING:
    import torch

    from everybit.core.grid import Words
    from everybit.core.observation import TensorTable
    from everybit.guard.gradients import Gradients
    from everybit.guard.replicas.reduction import Reduction
    from everybit.guard.state import CarriedState


class Columns:
    """Describe a step's digests; a description is made once for each set of names.

    Args:
        state: The carried state.
        gradients: Marks of the gradients; None where there are none.

    Attributes:
        why_local: Why copies are not kept equal by the program, "" where they may be.
        whys_unreduced: Why reduced gradients are not compared, or not all.
    """

    def __init__(self, state: CarriedState, gradients: Gradients | None) -> None:
        self.why_local = ""
        self.whys_unreduced: set[str] = set()
        self._state = state
        self._gradients = gradients
        self._declared: Declared | None = None
        self._sharded: ScatteredReduction | None = None
        self._peers: dict[int, tuple[int, ...]] = {}
        self._reduced: dict[int, tuple[int, ...]] = {}
        self._known: dict[tuple[str, ...], tuple[Layout, list[int]]] = {}
        self._words: dict[int, int] = {}
        self._synced: bool | None = None
        self._roots: list[int] = []

    @property
    def declared(self) -> bool:
        """Whether the program keeps any copies equal."""
        return any(c.declared for layout, _ in self._known.values() for c in layout.columns)

    def look(self) -> None:
        """Find what the program keeps equal: at the first call, and where a wrapper came since."""
        self._declared = Declared([root for root, _ in self._state.members.roots])
        self._sharded = ScatteredReduction([root for root, _ in self._state.members.roots])
        self.whys_unreduced = self._sharded.whys
        why = self._sharded.why_not
        if self._declared.wrappers:
            why = self._declared.why_unreduced
        if why:
            self.whys_unreduced.add(why)
        if self._declared.why_local:
            self._turn_local(self._declared.why_local)
        elif not self.why_local:
            self._peers, self._known = self._declared.peers(), {}
            self._reduced = self._declared.reduced()

    def close(self) -> None:
        """Let go of the program's modules."""
        self._declared = self._sharded = None

    @property
    def ring(self) -> tuple[int, ...]:
        """The ranks that hold copies of the whole model; none where that is not so simple."""
        groups = set(self._peers.values())
        (group,) = groups if len(groups) == 1 else ((),)
        return group

    def note_call(self) -> None:
        """Take note of a call that records a graph: whether its gradients will be reduced."""
        roots = [id(root) for root, _ in self._state.members.roots]
        if self._declared is None or roots != self._roots:
            self._roots = roots
            self.look()
        if self._declared is not None and self._declared.wrappers:
            self._synced = self._declared.syncs

    def sum_up(self, reduction: Reduction, step: int, turn: int, *, scattered: bool) -> None:
        """Have the gradients of the backward pass summed up that comes.

        Args:
            reduction: Sums them.
            step: The update.
            turn: Counts the steps that are looked at.
            scattered: A backward pass begins: it is known now what FSDP adds to. Else a call does.
        """
        among = self._sharded
        if among is not None and among.present:
            if scattered:
                reduction.stop()
                if found := among.gradients(self._named()):
                    reduction.begin(step, turn, found, among.ranks, among.replicas)
        elif not scattered:
            named, ranks = self._reduced_by_ddp()
            if named:
                reduction.begin(step, turn, named, ranks)

    def take_gradients(self) -> None:
        """Take the digests of gradients that DDP has just reduced."""
        if self._synced and self._reduced and self._gradients is not None:
            self._words = self._gradients.all_words()

    def forget_gradients(self) -> None:
        """Begin a new step."""
        self._words = {}
        self._synced = None

    def of(self, table: TensorTable) -> tuple[Layout, Words]:
        """Return what the digests of an update are of, and these with those of the gradients.

        Args:
            table: Digests of parameters, buffers and optimizer state.
        """
        if self._synced is False:
            # The update used gradients of this rank alone.
            self._turn_local("an update used gradients that no reduction had joined (no_sync)")
        known = self._known.get(table.names)
        if known is None:
            known = self._known[table.names] = self._describe(table.names)
        layout, gradients = known
        words = np.empty(len(layout.columns), np.uint64)
        words[: len(table.names)] = table.digests
        words[len(table.names) :] = [self._words.get(owner, 0) for owner in gradients]
        return layout, words

    def _describe(self, names: tuple[str, ...]) -> tuple[Layout, list[int]]:
        tracked = {item.label: item for item in self._state.tracked()}
        reduced = []
        if self._gradients is not None:
            reduced = [name for name in names if id(tracked[name].tensor) in self._reduced]
        layout = layout_of(names, tracked, self._peers, self._reduced, reduced)
        return layout, [id(tracked[name].tensor) for name in reduced]

    def _reduced_by_ddp(self) -> tuple[list[Reduced], tuple[int, ...]]:
        """Return the gradients that DDP will reduce of the call which begins.

        Returns:
            These in the order of the marks, and the ranks; none where nothing is.
        """
        if not self._synced or self._declared is None or self._declared.joins:
            return [], ()
        found = [
            (label, tensor, self._reduced[id(tensor)])
            for label, tensor in self._named()
            if id(tensor) in self._reduced and tensor.requires_grad
        ]
        ranks = found[0][2] if found else ()
        same = [
            Reduced(
                label,
                tensor,
                tensor,
                Rounding(num_ranks=len(ranks), dtype=tensor.dtype),
                float(len(ranks)),
            )
            for label, tensor, among in found
            if among == ranks
        ]
        return same, ranks

    def _named(self) -> list[tuple[str, torch.Tensor]]:
        return [(item.label, item.tensor) for item in self._state.parameters()]

    def _turn_local(self, why: str) -> None:
        if not self.why_local:
            self.why_local = why
            self._peers, self._reduced, self._known = {}, {}, {}
