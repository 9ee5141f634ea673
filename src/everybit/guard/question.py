"""Comparisons with the marks: asked at once, answered together, on accelerators with one sync."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from everybit.core.damage import Role
from everybit.guard.device_marks import DeviceMarks
from everybit.guard.locate import find_damage
from everybit.guard.marks import Marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.guard.writers import Writers

AnyMarks = Marks | DeviceMarks

#: Statistics of fewer elements are not told from damage.
_MIN_STATISTICS = 8

_STATISTICS = (
    "several buffers of the module changed together, as a native kernel does that updates its "
    "statistics outside a call of the root module"
)

_STRANGER = (
    "another tensor of the program lies in the same memory, and writes through it were not counted"
)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A comparison that was made: on accelerators its answer is still on the device."""

    marks: AnyMarks
    indices: list[int]
    answer: list[bool] | torch.Tensor
    doubts: dict[int, str] = field(default_factory=dict)
    void: set[int] = field(default_factory=set)  # Marked anew since: no longer asked.


def add_doubts(question: Question, flags: Sequence[bool], writers: Writers) -> None:
    """Doubt what something else than a fault may have changed, though nothing counted it."""
    doubt_statistics(question, flags)
    doubt_strangers(question, flags, writers)


def doubt_statistics(question: Question, flags: Sequence[bool]) -> None:
    """Doubt buffers of one module that changed together and throughout: no fault does that.

    Native kernels write a module's statistics without moving a version counter; within a call of
    the root module that is expected, past it nothing tells it from damage.
    """
    marks = question.marks
    changed: dict[int, list[int]] = {}
    for index, flag in zip(question.indices, flags, strict=True):
        item = marks.tracked[index]
        if flag and item.role is Role.BUFFER and item.local.numel() >= _MIN_STATISTICS:
            changed.setdefault(item.owner, []).append(index)
    for indices in changed.values():
        if len(indices) > 1 and all(_throughout(marks, index) for index in indices):
            question.doubts.update(dict.fromkeys(indices, _STATISTICS))


def doubt_strangers(question: Question, flags: Sequence[bool], writers: Writers) -> None:
    """Doubt tensors in whose memory another one lies that nobody knew of."""
    tracked = question.marks.tracked
    changed = [i for i, flag in zip(question.indices, flags, strict=True) if flag]
    if changed:
        strange = writers.strangers([tracked[i].tensor for i in changed])
        for index in changed:
            if id(tracked[index].tensor) in strange:
                question.doubts.setdefault(index, _STRANGER)


def _throughout(marks: AnyMarks, index: int) -> bool:
    damage = find_damage(marks, index, heal=False)
    # Where only rows are known, those that changed have to be nearly all.
    num_changed = damage.num_elements or sum(end - start for start, end in damage.element_ranges)
    return 10 * num_changed >= 9 * marks.tracked[index].local.numel()


def answers_of(questions: list[Question]) -> list[list[bool]]:
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
