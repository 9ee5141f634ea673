"""The carried state: every tracked tensor under marks, in groups that are written together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from everybit.core.damage import Role
from everybit.guard.device_marks import DeviceMarks
from everybit.guard.locate import find_damage
from everybit.guard.marks import Marks
from everybit.guard.tracked import Tracked, track_module, track_optimizer, unwrap
from everybit.probe.memory import why_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everybit.core.damage import Damage
    from everybit.core.grid import Words
    from everybit.guard.writers import Writers

#: Groups beside those of the optimizers, which go by their names.
BUFFERS = "(buffers)"
OTHERS = "(others)"

AnyMarks = Marks | DeviceMarks


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """A comparison that was made: on accelerators its answer is still on the device."""

    marks: AnyMarks
    indices: list[int]
    answer: list[bool] | torch.Tensor


class CarriedState:
    """Marks of parameters, buffers and optimizer state, and the test against them.

    Args:
        writers: Knows side doors through which tensors are legitimately written.
        shadow: Keep copies, so that any damage can be healed.
    """

    def __init__(self, writers: Writers, *, shadow: bool) -> None:
        self.num_tested = 0
        self.num_rebaselined = 0
        self.skipped: dict[str, str] = {}
        self.roots: list[tuple[torch.nn.Module, str | None]] = []
        self.optimizers: list[tuple[torch.optim.Optimizer, str]] = []
        self._writers = writers
        self._shadow = shadow
        self._groups: dict[str, list[AnyMarks]] = {}
        self._structure: list[int] = []
        self._deferred: list[_Question] = []

    def add_root(self, module: torch.nn.Module) -> list[torch.nn.Module]:
        """Track a root module.

        Returns:
            The roots whose place it takes: the same model without this wrapper, or parts of it.
        """
        if any(known is module for known, _ in self.roots):
            return []
        inside = {id(part) for part in module.modules()}
        replaced = [known for known, _ in self.roots if id(known) in inside]
        if not replaced and any(module in set(known.modules()) for known, _ in self.roots):
            return []
        self.roots = [(known, name) for known, name in self.roots if known not in replaced]
        taken = [name for _, name in self.roots]
        if None in taken:
            name = _unique(type(unwrap(module)).__name__, [name or "" for name in taken])
            self.roots.append((module, name))
        else:
            self.roots.insert(0, (module, None))
        return replaced

    def add_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Track an optimizer."""
        if self.name_of(optimizer) is None:
            name = _unique(type(optimizer).__name__, [n for _, n in self.optimizers])
            self.optimizers.append((optimizer, name))

    def name_of(self, optimizer: object) -> str | None:
        """Return the name of a tracked optimizer, None for another."""
        return next((name for known, name in self.optimizers if known is optimizer), None)

    def owns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the optimizer updates any tracked parameter."""
        tracked = {id(item.tensor) for root in self.roots for item in track_module(*root)}
        return any(id(p) in tracked for group in optimizer.param_groups for p in group["params"])

    def mark_all(self) -> None:
        """Look at everything anew and mark it as it is."""
        wanted = self._enumerate()
        self._take_up(
            {key: self._marked(items, self._groups.get(key)) for key, items in wanted.items()}
        )

    def mark_updated(self, optimizer: torch.optim.Optimizer) -> None:
        """Mark what an optimizer's step may have written, and the buffers; take up late-comers."""
        written = self._written_by(optimizer)
        if self._structure == self._look_at_structure() and self._all_in_place():
            for key in written & self._groups.keys():
                for marks in self._groups[key]:
                    marks.take()
            return
        wanted = self._enumerate()
        groups = {}
        for key, items in wanted.items():
            known = self._groups.get(key)
            if known is not None and key not in written and _fits(known, items):
                groups[key] = known
            else:
                groups[key] = self._marked(items, known)
        self._take_up(groups)

    def _take_up(self, groups: dict[str, list[AnyMarks]]) -> None:
        self._groups = groups
        self._structure = self._look_at_structure()
        self._writers.watch(
            item.tensor for group in groups.values() for marks in group for item in marks.tracked
        )

    def _look_at_structure(self) -> list[int]:
        """Return sizes that change when tensors are added or removed anywhere."""
        sizes = []
        for root, _ in self.roots:
            for module in root.modules():
                sizes += [len(module._parameters), len(module._buffers), len(module._modules)]
        for optimizer, _ in self.optimizers:
            sizes += [len(group["params"]) for group in optimizer.param_groups]
            sizes += [len(state) for state in optimizer.state.values()]
        return sizes

    def _all_in_place(self) -> bool:
        return all(
            item.in_place and marks.same_memory(index)
            for group in self._groups.values()
            for marks in group
            for index, item in enumerate(marks.tracked)
        )

    def _written_by(self, optimizer: torch.optim.Optimizer) -> set[str]:
        # A parameter that two optimizers share is in the group of the first.
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        return {BUFFERS} | {
            name
            for other, name in self.optimizers
            if other is optimizer
            or any(id(p) in mine for group in other.param_groups for p in group["params"])
        }

    def mark_buffers(self) -> None:
        """Mark the buffers: a forward pass may write them without moving a version counter."""
        for marks in self._groups.get(BUFFERS, ()):
            marks.take()

    def test(
        self,
        groups: Iterable[str] | None,
        *,
        roles: set[Role],
        heal: bool,
        defer: bool = False,
    ) -> list[tuple[Damage, bool]]:
        """Compare with the marks; what was legitimately written is marked anew.

        Args:
            groups: Names of the groups to test; all where None.
            roles: What to test in them.
            heal: Put the right bytes back where they are known.
            defer: On accelerators, let the answer wait for the next test that does not defer.

        Returns:
            Each damage, and whether it was found by an earlier, deferred test.
        """
        keys = list(self._groups) if groups is None else [k for k in groups if k in self._groups]
        asked = [(question, True) for question in self._deferred]
        self._deferred = []
        moved = set()
        for key in keys:
            for marks in self._groups[key]:
                indices, any_moved = self._candidates(marks, roles)
                if any_moved:
                    moved.add(key)
                if indices:
                    question = _Question(marks, indices, marks.compare(indices))
                    if defer and isinstance(question.answer, torch.Tensor):
                        self._deferred.append(question)
                    else:
                        asked.append((question, False))
        answers = _answers([question for question, _ in asked])
        damages = [
            (damage, late)
            for (question, late), flags in zip(asked, answers, strict=True)
            for damage in self._judge(question, flags, heal=heal)
        ]
        if moved:
            wanted = self._enumerate()
            for key in moved:
                self._groups[key] = self._marked(wanted[key], None)
                self.num_rebaselined += 1
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
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for group in self._groups.values():
            for marks in group:
                for item in marks.tracked:
                    if item.role is Role.PARAMETER and id(item.tensor) in mine:
                        yield item.label, item.tensor

    @property
    def num_tensors(self) -> int:
        """Tensors under marks."""
        return sum(len(marks) for group in self._groups.values() for marks in group)

    @property
    def num_bytes(self) -> int:
        """Bytes under marks."""
        return sum(marks.num_bytes for group in self._groups.values() for marks in group)

    def _candidates(self, marks: AnyMarks, roles: set[Role]) -> tuple[list[int], bool]:
        """Return the tensors that no known writer touched, and whether any has moved in memory."""
        written: set[int] = set()
        untouched: list[int] = []
        any_moved = False
        for index, item in enumerate(marks.tracked):
            if item.role not in roles or not item.in_place:
                continue
            side_door = self._writers.take(item.tensor)
            if not marks.same_memory(index):
                any_moved = True
            elif side_door or marks.version_moved(index):
                marks.take_one(index)
                self.num_rebaselined += 1
            else:
                untouched.append(index)
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
        return candidates, any_moved

    def _judge(self, question: _Question, flags: list[bool], *, heal: bool) -> list[Damage]:
        self.num_tested += len(flags)
        damages = []
        for index, flag in zip(question.indices, flags, strict=True):
            if flag:
                damage = find_damage(question.marks, index, heal=heal)
                damages.append(damage)
                if not damage.healed:
                    question.marks.take_one(index)
        return damages

    def _enumerate(self) -> dict[str, list[Tracked]]:
        groups: dict[str, list[Tracked]] = {name: [] for _, name in self.optimizers}
        groups |= {OTHERS: [], BUFFERS: []}
        owner_of = {
            id(parameter): name
            for optimizer, name in reversed(self.optimizers)
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        parameters: dict[int, Tracked] = {}
        seen: set[int] = set()
        for module, root_name in self.roots:
            for item in track_module(module, root_name):
                if id(item.tensor) in seen or not self._readable(item):
                    continue
                seen.add(id(item.tensor))
                if item.role is Role.BUFFER:
                    groups[BUFFERS].append(item)
                    continue
                parameters[id(item.tensor)] = item
                groups[owner_of.get(id(item.tensor), OTHERS)].append(item)
        for optimizer, name in self.optimizers:
            for item in track_optimizer(optimizer, name, parameters):
                if id(item.tensor) not in seen and self._readable(item):
                    seen.add(id(item.tensor))
                    groups[name].append(item)
        return groups

    def _readable(self, item: Tracked) -> bool:
        reason = why_unreadable(item.tensor)
        if reason:
            self.skipped[item.label] = reason
        return not reason

    def _marked(self, items: list[Tracked], known: list[AnyMarks] | None) -> list[AnyMarks]:
        if known is None or not _fits(known, items):
            on_cpu = [item for item in items if item.tensor.device.type == "cpu"]
            elsewhere = [item for item in items if item.tensor.device.type != "cpu"]
            known = [Marks(on_cpu, shadow=self._shadow)]
            if elsewhere:
                known.append(DeviceMarks(elsewhere, shadow=self._shadow))
        for marks in known:
            marks.take()
        return known


def _fits(known: list[AnyMarks], items: list[Tracked]) -> bool:
    on_cpu = [item for item in items if item.tensor.device.type == "cpu"]
    elsewhere = [item for item in items if item.tensor.device.type != "cpu"]
    wanted = [on_cpu, elsewhere] if elsewhere else [on_cpu]
    return len(known) == len(wanted) and all(
        marks.fits(part) for marks, part in zip(known, wanted, strict=True)
    )


def _unique(name: str, taken: list[str]) -> str:
    count = sum(1 for other in taken if other.partition("#")[0] == name)
    return f"{name}#{count}" if count else name


def _answers(questions: list[_Question]) -> list[list[bool]]:
    """Read all answers, those on accelerators with one sync a device."""
    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for question in questions:
        if isinstance(question.answer, torch.Tensor):
            by_device.setdefault(question.answer.device, []).append(question.answer)
    read = {device: iter(torch.cat(flags).tolist()) for device, flags in by_device.items()}
    return [
        [next(read[question.answer.device]) for _ in question.indices]
        if isinstance(question.answer, torch.Tensor)
        else question.answer
        for question in questions
    ]
