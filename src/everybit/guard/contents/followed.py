"""What is known of the contents of one loader's batches, and of the data set that they are from."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from everybit.detect.sample_changed import SampleBook
from everybit.guard.contents.memory import words_of, written_between
from everybit.guard.contents.rounded import Rounded
from everybit.guard.same_object import SameObject
from everybit.probe.contents import survey
from everybit.probe.contents.changes import changes_of
from everybit.probe.contents.handles import note_inherited, positions
from everybit.probe.contents.labels import Labels, labels_of
from everybit.probe.digest import flatten

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.contents import BatchFacts
    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord
    from everybit.guard.contents.memory import Words
    from everybit.guard.samples.delivery import Delivery, EpochStart
    from everybit.probe.contents.survey import Survey

#: Batches of a pass that are looked at for tensors which lie in the data set's own memory.
ALIASED_BATCHES: Final = 4


class FollowedLoader:
    """One loader. Nothing of its data set is kept alive.

    Args:
        length: Samples of the data set; None where it has no length.

    Attributes:
        book: The words of its samples.
        handles: What the data set holds open, by path; each is asked for by a call.
        at: Positions of its files as the pass began.
        readers: Workers that were seen to hold a handle of this process, by its path.
        told: Handles that were told of.
        last: The batch that was delivered last.
        handles_errors: The code that reads samples handles exceptions.
        num_labelled: Batches of the pass whose labels were compared with the data set's own.
    """

    def __init__(self, length: int | None) -> None:
        self.book = SampleBook(length)
        self.handles: dict[str, Callable[[], Any]] = {}
        self.at: dict[str, int | None] = {}
        self.readers: dict[str, set[int]] = {}
        self.told: set[str] = set()
        self.last: SampleRecord | None = None
        self.handles_errors = False
        self.num_labelled = 0
        self._dataset: SameObject | None = None
        self._reference: Callable[[], Any] = _nothing
        self._labels = Labels()
        self._rounded = Rounded()
        self._in_process = False
        self._words: Words = {}
        self._marks: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._places: list[tuple[int, int, str]] = []
        self._aliased: set[str] = set()

    @property
    def is_gone(self) -> bool:
        """Whether the data set is gone."""
        return self._dataset is not None and self._dataset.is_gone

    @property
    def cannot_go(self) -> bool:
        """Whether it cannot be known when the data set is gone: it is a list."""
        return self._dataset is not None and self._dataset.keeps_items

    @property
    def labels(self) -> Any:
        """The data set's own list of labels; None with none."""
        return labels_of(self._reference())

    def begins(self, start: EpochStart, found: Survey) -> None:
        """Take the beginning of a pass, before its workers are made."""
        if self._dataset is None or not self._dataset.is_same(start.dataset):
            self._dataset = SameObject(start.dataset)
            self._reference = _dataset_of(start)
        note_inherited(found.handles)
        self.handles = {path: _weakly(each) for path, each in found.handles.items()}
        self.at = positions(found.handles)
        self.readers = {}
        self.num_labelled = 0
        self._labels.look(labels_of(start.dataset))
        self._in_process = not start.promise.num_workers
        changes = changes_of(start.dataset)
        changes.begin()  # What was set since the last batch was read.
        changes.watch(found)
        self._marks = dict(changes.within), dict(changes.between)
        self._words = words_of(found.arrays) if self._in_process else {}
        self._aliased = set()
        self._places = [
            (*place, path)
            for path, array in found.arrays.items()
            if (place := _place_of(array)) is not None
        ]

    def read(self, delivery: Delivery, facts: BatchFacts) -> None:
        """Take the samples of a batch."""
        self.handles_errors = facts.handles
        if facts.inherited is not None:
            for path in self.handles:
                workers = self.readers.setdefault(path, set())
                (workers.add if path in facts.inherited else workers.discard)(
                    delivery.record.worker
                )
        if self._in_process and delivery.record.batch < ALIASED_BATCHES:
            self._aliased |= self._lying_in(delivery.batch)
        if facts.samples is None:
            return
        self._rounded.look_at(delivery.batch)
        version = changes_of(delivery.dataset).version if delivery.dataset is not None else (0, 0)
        self.book.read(
            delivery.record,
            facts.samples,
            drew=facts.drew,
            version=version,
            is_rounded=self._rounded.is_rounded,
        )
        self._rounded.done()

    def ends(self) -> list[Finding]:
        """Judge the samples once a pass is over."""
        dataset = self._reference()
        if dataset is None:
            return self.book.judge()
        changes = changes_of(dataset)
        written: tuple[str, ...] = ()
        if self._in_process:
            changes.begin()  # What the loop did with the last batch.
            within, between = self._marks
            seen = {path for path, number in changes.within.items() if number > within.get(path, 0)}
            if self._words:
                changed = written_between(self._words, words_of(survey(dataset).arrays))
                meant = {p for p, number in changes.between.items() if number > between.get(p, 0)}
                seen = {p for p in changed if p in seen or p not in meant or p in self._aliased}
            written = tuple(sorted(seen))
        return self.book.judge(
            written=written, set_last=changes.last_set, permuted=self._labels.are_permuted
        )

    def let_go(self) -> None:
        """Keep nothing of the data set; what was counted stays."""
        self.book.let_go()
        self.handles, self.at, self.readers = {}, {}, {}
        self._words, self._places = {}, []
        self._labels = Labels()
        self._dataset, self._reference = None, _nothing

    def _lying_in(self, batch: Any) -> set[str]:
        """Return the arrays in whose memory a tensor of a batch lies: the loop may write there."""
        found = set()
        for _, leaf in flatten(batch):
            if isinstance(leaf, (torch.Tensor, np.ndarray)):
                place = _place_of(leaf)
                if place is not None:
                    found |= {p for first, end, p in self._places if first <= place[0] < end}
        return found


def _place_of(array: Any) -> tuple[int, int] | None:
    """Return the first address of an array's memory and the first behind it."""
    if isinstance(array, np.ndarray):
        first = int(array.__array_interface__["data"][0])
        return first, first + max(1, int(array.nbytes))
    if isinstance(array, torch.Tensor) and array.is_cpu and array.layout is torch.strided:
        try:
            first = array.data_ptr()
        except RuntimeError:  # A tensor of a kind that has no memory of its own.
            return None
        return (first, first + max(1, array.nbytes)) if first else None
    return None


def _dataset_of(start: EpochStart) -> Callable[[], Any]:
    """Return what gives the data set for as long as it is there; a list, while its loader is."""
    try:
        return weakref.ref(start.dataset)
    except TypeError:
        loader = weakref.ref(start.source)
        return lambda: getattr(loader(), "dataset", None)


def _nothing() -> None:
    return None


def _weakly(value: Any) -> Callable[[], Any]:
    """Return what gives the object for as long as it is there."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
