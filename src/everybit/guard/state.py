"""The carried state: every tracked tensor under marks, in groups that are written together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.damage import Role
from everybit.guard.device_marks import DeviceMarks
from everybit.guard.groups import BUFFERS, fits_marks, grouped, split_by_place
from everybit.guard.locate import find_damage
from everybit.guard.marks import Marks
from everybit.guard.members import Members
from everybit.guard.question import (
    AnyMarks,
    Question,
    add_doubts,
    answers_of,
)
from everybit.guard.sharing import Sharing
from everybit.guard.structure import look_at_structure
from everybit.guard.tracked import Tracked, nested_holders, parameter_ids
from everybit.guard.writers import Access, Writers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from everybit.core.damage import Damage
    from everybit.core.grid import Words
    from everybit.guard.locate import Keep
    from everybit.guard.scrub import Scrub

_READ = "its `.data` was taken before, and a native write through that is not counted"


class CarriedState:
    """Marks of parameters, buffers and optimizer state, and the test against them.

    Attributes:
        num_tested: Comparisons of a tensor with its mark.
        num_rebaselined: Marks renewed because of a legitimate write between steps.
        num_tensors: Most tensors that were under marks at once.
        num_bytes: And their bytes.
        skipped: What is not tested, and why.
        measure: Measure norms of parameters as they are marked.
        writers: Knows side doors through which tensors are legitimately written.
        keep: Is handed the bytes of damaged tensors; None where nobody wants them.

    Args:
        writers: The same.
        shadow: Keep copies, so that any damage can be healed.
    """

    def __init__(self, writers: Writers, *, shadow: bool) -> None:
        self.num_tested = 0
        self.num_rebaselined = 0
        self.num_tensors = 0
        self.num_bytes = 0
        self.skipped: dict[str, str] = {}
        self.members = Members(self._lose)
        self.lost = False
        self.buffers_in_doubt = False
        self.most_tensors = 0
        self.most_bytes = 0
        self.keep: Keep | None = None
        self._before_loss: Callable[[], None] | None = None
        self.writers = writers
        self.measure = False
        self._shadow = shadow
        self._groups: dict[str, list[AnyMarks]] = {}
        self._structure: list[int] = []
        self._nested: list[Any] = []
        self._deferred: list[Question] = []
        self._sharing = Sharing()

    def before_loss(self, call: Callable[[], None]) -> None:
        """Set what is called before tensors are let go of."""
        self._before_loss = call

    def _lose(self, name: str | None) -> None:
        """Let go of the tensors of a module or an optimizer that the program has let go of."""
        if self._before_loss is not None:
            self._before_loss()
        self.lost = True
        if name is not None:
            # In place: this may come at any moment, within a loop over the groups too.
            self._groups[name] = []

    def mark_all(self) -> None:
        """Look at everything anew and mark it as it is."""
        wanted = self._enumerate()
        self._take_up(
            {key: self._marked(items, self._groups.get(key)) for key, items in wanted.items()}
        )

    def mark_new(self) -> None:
        """Look at everything anew and mark what is new; the marks of the rest stay."""
        self._refresh(set())

    def mark_updated(self, optimizer: torch.optim.Optimizer) -> None:
        """Mark what an optimizer's step may have written; take up late-comers.

        Buffers keep the marks of the last call, but for those that a known writer has touched.
        """
        written = self.members.written_by(optimizer)
        if (
            self._structure == look_at_structure(self.members, self._nested)
            and self._all_in_place()
        ):
            for key in written & self._groups.keys():
                self._take(self._groups[key])
            self.settle_buffers()
        else:
            self._refresh(written)

    def _refresh(self, written: set[str]) -> None:
        groups = {}
        for key, items in self._enumerate().items():
            known = self._groups.get(key)
            if known is not None and key not in written and fits_marks(known, items):
                groups[key] = known
            else:
                groups[key] = self._marked(items, known)
        self._take_up(groups)

    def _take_up(self, groups: dict[str, list[AnyMarks]]) -> None:
        self._groups = groups
        self.lost = False
        self.members.look_again()
        every = [marks for group in groups.values() for marks in group]
        self.num_tensors = max(self.num_tensors, sum(len(marks) for marks in every))
        self.num_bytes = max(self.num_bytes, sum(marks.num_bytes for marks in every))
        self._nested = [
            part for item, _ in self.members.optimizers for part in nested_holders(item)
        ]
        self._structure = look_at_structure(self.members, self._nested)
        self.most_tensors = max(self.most_tensors, self.num_tensors)
        self.most_bytes = max(self.most_bytes, self.num_bytes)
        self._watch_writers()

    def _watch_writers(self) -> None:
        self.writers.watch(item.tensor for marks in self.all_marks() for item in marks.tracked)
        self._sharing.look(self.all_marks())

    def _all_in_place(self) -> bool:
        return all(marks.lies_still() for group in self._groups.values() for marks in group)

    def mark_buffers(self) -> None:
        """Mark the buffers: a forward pass may write them without moving a version counter."""
        group = self._groups.get(BUFFERS, [])
        if all(marks.lies_still() for marks in group):
            self._take(group)
            return
        if all(item.in_place for item in self.parameters()):
            self._groups[BUFFERS] = self._marked(self._enumerate()[BUFFERS], None)
            self._watch_writers()
            return
        # The call was made with other tensors in the model's place (`functional_call`).
        for marks in group:
            for index, item in enumerate(marks.tracked):
                if item.in_place and marks.same_memory(index):
                    self.mark_one(marks, index)

    def settle_buffers(self) -> None:
        """Mark the buffers that a known writer has touched: nothing else writes them now."""
        for marks in self._groups.get(BUFFERS, ()):
            self._candidates(marks, {Role.BUFFER})

    def all_marks(self) -> list[AnyMarks]:
        """Return all marks as they are grouped now."""
        return [marks for group in self._groups.values() for marks in group]

    def tracked(self) -> Iterator[Tracked]:
        """Yield every tensor that is under marks now."""
        for marks in self.all_marks():
            yield from marks.tracked

    def marked(self) -> Iterator[tuple[str, AnyMarks, int, Tracked]]:
        """Yield every tensor under marks: its group, its marks, its place in them, and itself."""
        for key, group in self._groups.items():
            for marks in group:
                for index, item in enumerate(marks.tracked):
                    yield key, marks, index, item

    def parameters(self) -> Iterator[Tracked]:
        """Yield every parameter under marks."""
        yield from (item for item in self.tracked() if item.role is Role.PARAMETER)

    def test(
        self,
        groups: Iterable[str] | None,
        *,
        roles: set[Role],
        heal: bool,
        root: torch.nn.Module | None = None,
        defer: bool = False,
        scrub: Scrub | None = None,
    ) -> list[tuple[Damage, bool]]:
        """Compare with the marks; what was legitimately written is marked anew.

        Args:
            groups: Names of the groups to test; all where None.
            roles: What to test in them.
            heal: Put the right bytes back where they are known.
            root: Of parameters, only those that this root module holds; all where None.
            defer: On accelerators, let the answer wait for the next test that does not defer.
            scrub: Chooses which to test; all where None.

        Returns:
            Each damage, and whether it may have been used since: an earlier, deferred test found
            it, or it was not tested at every call.
        """
        keys = list(self._groups) if groups is None else [k for k in groups if k in self._groups]
        asked = [(question, True) for question in self._deferred]
        self._deferred = []
        moved = set()
        if self.buffers_in_doubt:
            self.buffers_in_doubt = False
            self.mark_buffers()
        for marks, index in self._sharing.members:
            # Before anything is tested: a write to one is a write to all in its memory.
            if marks.tracked[index].in_place and marks.same_memory(index):
                self._settle(marks, index)
        held = self.members.held_by(root)
        wanted = []
        for key in keys:
            for marks in self._groups[key]:
                indices, any_moved, doubts = self._candidates(marks, roles)
                if any_moved:
                    moved.add(key)
                if held is not None and not any_moved:
                    indices = [
                        index
                        for index in indices
                        if marks.tracked[index].role is not Role.PARAMETER
                        or id(marks.tracked[index].tensor) in held
                    ]
                if indices:
                    wanted.append((marks, indices, doubts))
        for marks, indices, doubts in scrub.pick(wanted) if scrub else wanted:
            overdue = [i for i in indices if scrub and scrub.is_late(marks, i)]
            on_time = [i for i in indices if i not in overdue] if overdue else indices
            for part in (on_time, overdue):
                if not part:
                    continue
                question = Question(marks, part, marks.compare(part), doubts)
                if defer and isinstance(question.answer, torch.Tensor):
                    self._deferred.append(question)
                else:
                    asked.append((question, part is overdue))
        answers = answers_of([question for question, _ in asked])
        for (question, _), flags in zip(asked, answers, strict=True):
            add_doubts(question, flags, self.writers)
        told: set[tuple[int, int]] = set()
        damages = [
            (damage, late)
            for (question, late), flags in zip(asked, answers, strict=True)
            for damage in self._judge(question, flags, told, late=late, heal=heal, scrub=scrub)
        ]
        for question in self._deferred:
            question.void.update(index for marks, index in told if marks == id(question.marks))
        if moved:
            anew = self._enumerate()
            for key in moved:
                self._groups[key] = self._marked(anew[key], None)
                self.num_rebaselined += 1
            self._watch_writers()
        return damages

    def tables(
        self, groups: Iterable[str] | None = None
    ) -> Iterator[tuple[tuple[str, ...], Words | torch.Tensor]]:
        """Yield `(labels, digest words)` of groups as marked; all groups where None."""
        for key in self._groups if groups is None else groups:
            for marks in self._groups.get(key, ()):
                if len(marks):
                    yield tuple(item.label for item in marks.tracked), marks.words()

    def parameters_of(self, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield `(label, parameter)` of what the optimizer updates, in the order of the marks."""
        mine = parameter_ids(optimizer)
        for group in self._groups.values():
            for marks in group:
                for item in marks.tracked:
                    if item.role is Role.PARAMETER and id(item.tensor) in mine:
                        yield item.label, item.tensor

    def _settle(self, marks: AnyMarks, index: int) -> str | None:
        """Mark a tensor anew where a known writer touched it.

        Returns:
            None where it was; else why it may have been, "" where nothing says so.
        """
        access = Access.NONE
        if not self.writers.quiet:
            access = self.writers.take(marks.tracked[index].tensor)
        if access is Access.WRITTEN or marks.version_moved(index):
            self.mark_one(marks, index)
            self.num_rebaselined += 1
            return None
        return _READ if access is Access.READ else ""

    def mark_one(self, marks: AnyMarks, index: int) -> None:
        """Mark a tensor as it is, and those that share its memory."""
        marks.take_one(index)
        for other, place in self._sharing.with_(marks, index):
            other.take_one(place)

    def _candidates(
        self, marks: AnyMarks, roles: set[Role]
    ) -> tuple[list[int], bool, dict[int, str]]:
        """Return the tensors that no known writer touched, whether any moved, and doubts."""
        written: set[int] = set()
        untouched: list[int] = []
        any_moved = False
        doubts: dict[int, str] = {}
        quiet = self.writers.quiet
        for index, item in enumerate(marks.tracked):
            if item.role not in roles or not item.in_place:
                continue
            doubt: str | None = ""
            if not marks.same_memory(index):
                any_moved = True
                doubt = None
            elif not quiet or marks.version_moved(index):
                doubt = self._settle(marks, index)
            if doubt is not None:
                untouched.append(index)
                if doubt:
                    doubts[index] = doubt
                continue
            if item.role is Role.BUFFER:
                written.add(item.owner)
        candidates = []
        for index in untouched:
            # Batch norm's kernel moves the version counter of `num_batches_tracked` only.
            if marks.tracked[index].role is Role.BUFFER and marks.tracked[index].owner in written:
                marks.take_one(index)
                self.num_rebaselined += 1
            else:
                candidates.append(index)
        return candidates, any_moved, doubts

    def _judge(
        self,
        question: Question,
        flags: list[bool],
        told: set[tuple[int, int]],
        *,
        late: bool,
        heal: bool,
        scrub: Scrub | None,
    ) -> list[Damage]:
        self.num_tested += len(flags)
        marks, damages = question.marks, []
        for index, flag in zip(question.indices, flags, strict=True):
            if scrub is not None and not flag:
                scrub.passed(marks.tracked[index].tensor)
            if not flag or index in question.void or (id(marks), index) in told:
                continue
            told.add((id(marks), index))
            if heal and not late and marks.agrees(index, marks.memories[index].bytes_()):
                continue  # It shares memory with a tensor that has just been healed.
            doubt = question.doubts.get(index, "")
            damage = find_damage(marks, index, heal=heal and not doubt, doubt=doubt, keep=self.keep)
            if scrub is not None:
                damage = replace(damage, last_right=scrub.last(marks.tracked[index].tensor))
                scrub.passed(marks.tracked[index].tensor)  # Marked as it is, or healed.
            damages.append(damage)
            if not damage.healed:
                marks.take_one(index)
        return damages

    def _enumerate(self) -> dict[str, list[Tracked]]:
        return grouped(self.members, self.skipped)

    def _marked(self, items: list[Tracked], known: list[AnyMarks] | None) -> list[AnyMarks]:
        if known is None or not fits_marks(known, items):
            on_host, elsewhere = split_by_place(items)
            known = [Marks(on_host, shadow=self._shadow)]
            known[0].measure = self.measure
            if elsewhere:
                known.append(DeviceMarks(elsewhere, shadow=self._shadow))
        self._take(known)
        return known

    def _take(self, group: list[AnyMarks]) -> None:
        for marks in group:
            marks.take()
            self.writers.settle(item.tensor for item in marks.tracked)
            for other, index in self._sharing.beside(marks):
                other.take_one(index)
