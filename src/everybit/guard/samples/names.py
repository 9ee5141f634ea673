"""The loaders of a program, under names that are the same each time it runs."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.observation import unique_name
from everybit.core.samples import Promise
from everybit.guard.same_object import SameObject

if TYPE_CHECKING:
    from everybit.guard.samples.hooks import Hooks

#: Loaders that are gone, of data sets of their own, whose last position is kept.
MAX_GONE: Final = 64


@dataclass(slots=True, eq=False)
class Entry:
    """A loader as far as it was followed.

    Attributes:
        name: Its name in records and findings.
        loader: The loader, held weakly; its last one where the program makes one an epoch.
        dataset: Knows its data set again; None where that is let go of.
        promise: What its sampler promises.
        passes: Passes that were begun.
        hooks: Those on its newest iterator.
        last_step: Updates finished when it last delivered a batch for an update; -1 with none.
        for_update: Its newest batch was for an update.
        span: Updates finished at the first and at the last batch of the newest pass.
        left: The loop broke the newest pass off.
        left_before: The loop broke the pass before it off.
        broken_off: Passes before it that the loop broke off.
        given: The program gave the name.
    """

    name: str
    loader: weakref.ref[Any]
    dataset: SameObject | None
    promise: Promise = field(default_factory=Promise)
    passes: int = 0
    hooks: Hooks | None = None
    last_step: int = -1
    for_update: bool = False
    span: tuple[int, int] = (-1, -1)
    left: bool = False
    left_before: bool = False
    broken_off: int = 0
    given: bool = False

    def delivered(self, step: int, *, first: bool, for_update: bool) -> None:
        """Take note of a batch.

        Args:
            step: Updates finished so far.
            first: It is the first of its pass, here.
            for_update: It is for the next update.
        """
        self.span = step if first else self.span[0], step
        self.for_update = for_update
        if for_update:
            self.last_step = step

    def begins(self) -> int:
        """Take note of a pass; returns its number."""
        self.broken_off += self.left
        self.left, self.left_before = False, self.left
        self.passes += 1
        return self.passes - 1

    def ended(self, hooks: Any, *, whole: bool) -> None:
        """Take note that a pass is over: the newest, or one before whose iterator was held on to.

        Args:
            hooks: Those on its iterator.
            whole: The loader had no more.
        """
        if hooks is self.hooks:
            self.left = not whole
        else:
            self.broken_off += not whole
            self.left_before = not whole

    def is_live(self, step: int, *, trains: bool) -> bool:
        """Whether a checkpoint of now goes on within the newest pass.

        It does while the loop is in it. One that was left a moment ago, to save and to stop, is
        gone on with, too; not that of a loop that leaves all its passes before their end.

        Nor, in a run that trains, a pass that is for no update and is over: a trainer that counts
        batches (Lightning) never asks for the end, holds on to the iterator of its last validation,
        and makes another one for the next. It is over where all was delivered, and where all that
        was came between two updates and the pass before was left, too.

        Args:
            step: Updates finished so far.
            trains: Some loader delivers for updates.
        """
        hooks = self.hooks
        if hooks is None or hooks.current.whole:
            return False
        at_once = self.left_before and self.span[0] == self.span[1]
        if trains and not self.for_update and (at_once or hooks.has_delivered_all):
            return False
        just_left = self.last_step >= 0 and step - self.last_step <= 1 and not self.broken_off
        return just_left or (not hooks.current.ended and hooks.in_loop)


class Entries:
    """Names loaders by the class of their data set, in the order in which they are first used."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def __iter__(self) -> Any:
        return iter(self._entries)

    def of(self, loader: Any, name: str = "") -> Entry:
        """Return the entry of a loader, a new one where it is not known.

        A loader that is made anew for each epoch, over the same data set, goes on with the entry of
        the one before it where that is gone.

        Args:
            loader: The loader.
            name: What the program calls it; "" for the class of the data set.
        """
        dataset = getattr(loader, "dataset", loader)
        for entry in self._entries:
            if entry.loader() is loader:
                if name and not entry.given and not entry.passes:
                    entry.name, entry.given = self._free(name), True
                return entry
        for entry in self._entries:
            known = entry.dataset
            if name or entry.loader() is not None or known is None:
                continue
            if known.is_same(dataset):
                entry.loader = weakref.ref(loader)
                return entry
        entry = Entry(
            name=self._free(name or type(dataset).__name__),
            loader=weakref.ref(loader),
            dataset=SameObject(dataset),
            given=bool(name),
        )
        self._entries.append(entry)
        self._let_go()
        return entry

    def rename(self, entry: Entry, name: str) -> None:
        """Give an entry the name of a saved one that it turned out to be."""
        for other in self._entries:
            if other is not entry and other.name == name:
                other.name = entry.name
        entry.name = name

    def _let_go(self) -> None:
        """Let go of old positions: a program may make a data set for each epoch, or each shard."""
        gone = [each for each in self._entries if each.hooks is not None and each.loader() is None]
        for entry in gone[:-MAX_GONE]:
            entry.hooks = None
            if entry.dataset is not None and entry.dataset.keeps_items:
                entry.dataset = None

    def _free(self, name: str) -> str:
        return unique_name(name, [entry.name for entry in self._entries])
