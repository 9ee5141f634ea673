"""Anything that can be iterated, followed by name: a list of tensors, a generator of batches."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from everybit.guard.samples.hooks import Arrived
from everybit.guard.samples.passing import Beginning, Pass
from everybit.probe.contents.words import value_word
from everybit.probe.samples import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from everybit.guard.samples.hooks import Sink


class TrackedIterable:
    """Passes on what it is given, item by item; each item counts as a batch.

    Attributes and length are those of the thing itself.

    Args:
        source: What is iterated.
        begin: Called as a pass begins; returns who is told of it, None where nobody is.
    """

    def __init__(
        self, source: Any, begin: Callable[[TrackedIterable], IterablePass | None]
    ) -> None:
        self._source = source
        self._begin = begin

    def __iter__(self) -> Iterator[Any]:
        going = self._begin(self)
        for item in self._source:
            if going is not None:
                going.deliver(item)
            yield item
        if going is not None:
            going.end(whole=True)

    def __len__(self) -> int:
        return len(self._source)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_source":
            raise AttributeError(name)
        return getattr(self._source, name)


class IterablePass:
    """One pass over it, with the face of the hooks on an iterator.

    Args:
        tracked: What is iterated.
        sink: Is told.
    """

    def __init__(self, tracked: TrackedIterable, sink: Sink) -> None:
        self.current = Pass(number=0, beginning=Beginning(streams={}, generators={}))
        self._loader = weakref.ref(tracked)
        self._sink: Sink | None = sink

    @property
    def loader(self) -> Any:
        """What is iterated; None where it is gone."""
        return self._loader()

    @property
    def workers(self) -> list[Any]:
        """There are none."""
        return []

    @property
    def is_alive(self) -> bool:
        """Whether somebody may still go on with it."""
        return self._loader() is not None

    def forget(self, _sink: Sink) -> None:
        """Tell nobody any more."""
        self._sink = None

    def deliver(self, item: Any) -> None:
        """Tell of an item, before the loop gets it."""
        number = self.current.delivered
        facts = Facts(digest=value_word(item))
        self.current.deliver(None, (facts.digest,))
        if self._sink is not None:
            arrived = Arrived(
                keys=None,
                hashed=False,
                worker=-1,
                facts=facts,
                batch=item,
                number=number,
                expected=None,
                resumed=False,
            )
            self._sink.arrived(self, arrived)

    def end(self, *, whole: bool) -> None:
        """Tell that it is over."""
        if not self.current.ended:
            self.current.ended = True
            if self._sink is not None:
                self._sink.ended(self, whole=whole)

    def leave(self) -> None:
        """Take note that it was broken off."""
        self.end(whole=False)
