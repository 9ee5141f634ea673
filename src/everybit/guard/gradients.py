"""Gradients under marks, from the end of a backward pass to the update that uses them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from everybit.core.damage import Role
from everybit.guard.device_marks import DeviceMarks
from everybit.guard.groups import split_by_place
from everybit.guard.light_marks import LightMarks
from everybit.guard.locate import find_damage
from everybit.guard.question import Question, answers_of, doubt_strangers
from everybit.guard.shards import local_of
from everybit.guard.tracked import Tracked, parameter_ids
from everybit.guard.writers import Access
from everybit.probe.memory import is_shared, why_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.core.damage import Damage
    from everybit.guard.state import CarriedState
    from everybit.guard.writers import Writers

    GradientMarks = LightMarks | DeviceMarks


class _GradientOf:
    """Where a gradient is held: an attribute of its parameter, which is not kept alive."""

    def __init__(self, parameter: torch.Tensor) -> None:
        self._parameter = weakref.ref(parameter)

    def __getitem__(self, key: str) -> torch.Tensor | None:
        parameter = self._parameter()
        return None if parameter is None else parameter.grad

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _GradientOf) and self._parameter is other._parameter

    def __hash__(self) -> int:
        return hash(self._parameter)


class Gradients:
    """Marks of the gradients of all tracked parameters, and the test against them.

    A mark lasts from the end of a backward pass, or of what rewrites gradients on purpose, to the
    update that uses them. It keeps the gradient alive for as long.

    Args:
        state: Knows the parameters.
        writers: Knows side doors through which tensors are legitimately written.
        shadow: Keep copies, so that any damage can be healed.
        measure: Measure norms where gradients are marked, while they are in the cache.

    Attributes:
        skipped: Parameters whose gradient is not tested, and why.
        num_tested: Comparisons of a gradient with its mark.
    """

    def __init__(
        self, state: CarriedState, writers: Writers, *, shadow: bool = False, measure: bool = False
    ) -> None:
        self.skipped: dict[str, str] = {}
        self.num_tested = 0
        self._state = state
        self._writers = writers
        self._shadow = shadow
        self._measure = measure
        self._marks: list[GradientMarks] = []
        self._used: set[int] = set()

    def mark(self) -> None:
        """Mark every gradient as it is now."""
        self._used = set()
        on_host, elsewhere = split_by_place(list(self._enumerate()))
        self._marks = [
            self._marked(kind, items)
            for kind, items in ((LightMarks, on_host), (DeviceMarks, elsewhere))
            if items
        ]
        tensors = [item.tensor for marks in self._marks for item in marks.tracked]
        self._writers.watch(tensors, of="gradients")
        self._writers.settle(tensors)

    def drop(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Let go of the gradients that an optimizer has used; of all where None."""
        if optimizer is not None:
            self._used |= parameter_ids(optimizer)
            # Those of other optimizers wait for their own update.
            if any(
                item.owner not in self._used and item.in_place
                for marks in self._marks
                for item in marks.tracked
            ):
                return
        self._marks = []
        self._used = set()
        self._writers.watch((), of="gradients")

    def words(self, optimizer: torch.optim.Optimizer) -> dict[int, int]:
        """Return the recorded digest of an optimizer's gradients as marked, by parameter's id.

        Only of those on the CPU, and those that nothing legitimate has touched since.
        """
        wanted = parameter_ids(optimizer) - self._used
        return {
            item.owner: word
            for marks in self._marks
            if isinstance(marks, LightMarks)
            for index, (item, word) in enumerate(
                zip(marks.tracked, marks.memory_words(), strict=True)
            )
            if item.owner in wanted and self._is_as_marked(marks, index)
        }

    def all_words(self) -> dict[int, int]:
        """Return the digest of every gradient on the CPU as marked, by parameter's id."""
        return {
            item.owner: word
            for marks in self._marks
            if isinstance(marks, LightMarks)
            for item, word in zip(marks.tracked, marks.memory_words(), strict=True)
        }

    def norms(self, optimizer: torch.optim.Optimizer) -> dict[int, float]:
        """Return the L2 norms of an optimizer's gradients as marked, by parameter's id.

        Only of large ones on the CPU, and of what nothing legitimate has touched since.
        """
        wanted = parameter_ids(optimizer) - self._used
        return {
            item.owner: norm
            for marks in self._marks
            if isinstance(marks, LightMarks)
            for index, item in enumerate(marks.tracked)
            if item.owner in wanted and (norm := marks.norm(index)) is not None
            if self._is_as_marked(marks, index)
        }

    def test(
        self, optimizer: torch.optim.Optimizer | None, *, heal: bool, defer: bool = False
    ) -> tuple[list[Damage], list[Question]]:
        """Compare gradients with their marks.

        Args:
            optimizer: Whose gradients to test; all where None.
            heal: Put the right bytes back where they are known.
            defer: On accelerators, ask only.

        Returns:
            The damage found, and the questions still open.
        """
        wanted = None if optimizer is None else parameter_ids(optimizer)
        questions = []
        for marks in self._marks:
            indices = [
                index
                for index, item in enumerate(marks.tracked)
                if (wanted is None or item.owner in wanted)
                and item.owner not in self._used
                and self._is_as_marked(marks, index)
            ]
            if indices:
                questions.append(Question(marks, indices, marks.compare(indices)))
        later = [q for q in questions if defer and isinstance(q.answer, torch.Tensor)]
        now = [q for q in questions if q not in later]
        damages = [
            damage
            for question, flags in zip(now, answers_of(now), strict=True)
            for damage in self.judge(question, flags, heal=heal)
        ]
        return damages, later

    def judge(self, question: Question, flags: Sequence[bool], *, heal: bool) -> list[Damage]:
        """Return the damage behind the answer to a question."""
        self.num_tested += len(flags)
        marks, damages = question.marks, []
        doubt_strangers(question, flags, self._writers)
        for index, flag in zip(question.indices, flags, strict=True):
            if not flag or (heal and marks.agrees(index, marks.memories[index].bytes_())):
                continue  # The latter shares memory with one that has just been healed.
            doubt, keep = question.doubts.get(index, ""), self._state.keep
            damage = find_damage(marks, index, heal=heal and not doubt, doubt=doubt, keep=keep)
            damages.append(damage)
            if not damage.healed:
                marks.take_one(index)
        return damages

    def _is_as_marked(self, marks: GradientMarks, index: int) -> bool:
        """Whether nothing legitimate has touched the gradient; if so, it is marked as it is."""
        item = marks.tracked[index]
        if not item.in_place or not marks.same_memory(index):
            return False
        written = marks.version_moved(index)
        if not self._writers.quiet:
            written |= self._writers.take(item.tensor) is not Access.NONE
        if written:
            marks.take_one(index)
        return not written

    def _marked(self, kind: type[GradientMarks], items: list[Tracked]) -> GradientMarks:
        for known in self._marks:
            if isinstance(known, kind) and known.fits(items):
                known.take()
                return known
        marks = kind(items, shadow=self._shadow)
        marks.measure = self._measure
        marks.take()
        return marks

    def _enumerate(self) -> Iterator[Tracked]:
        for item in self._state.parameters():
            gradient = item.tensor.grad
            if gradient is None:
                continue
            why = why_unreadable(local_of(gradient))
            if not why and is_shared(local_of(gradient)):
                why = "it is shared with other processes, which may write to it"
            if why:
                self.skipped[item.label] = why
                continue
            yield Tracked(
                Role.GRADIENT,
                gradient,
                _GradientOf(item.tensor),
                "grad",
                item.parameter,
                item.module,
                owner=id(item.tensor),
            )
