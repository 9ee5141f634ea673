"""The `collate_fn` and the flag that a tracked loader runs with: they measure, and pass on.

A loader's worker asks its flag `auto_collation` first of all when it begins a batch, and calls
`collate_fn` last of all: between the two a batch is made. Both are plain objects that can be
pickled, so the same is true of workers that are forked, spawned or forked by a server, and of no
worker at all. Neither touches a random stream or a sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from everybit.probe.contents import ContentsProbe
from everybit.probe.contents.rows import keeps_rows
from everybit.probe.contents.words import value_word
from everybit.probe.samples.envelope import Envelope, Facts
from everybit.probe.samples.streams import dataset_generators, pack_streams, restore_states

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from everybit.probe.samples.streams import Packed, States


class Begin:
    """Stands for the flag `auto_collation`: it is asked when a batch is begun.

    Args:
        collates: What the flag says.
        dataset: The data set where no worker has a copy of its own.
        resume: States of the streams that each worker begins with, by its number.
    """

    def __init__(
        self, collates: bool, dataset: Any, resume: Mapping[int, States] | None = None
    ) -> None:
        self._collates = collates
        self._dataset = dataset
        self._resume = dict(resume or {})
        self._generators: dict[str, Any] = {}
        self.worker = -1
        self.contents: ContentsProbe | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A worker has the data set already; a second copy would be another object.
        return {"_collates": self._collates, "_resume": self._resume}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_collates"], None, state["_resume"])  # type: ignore[misc]

    def __bool__(self) -> bool:
        try:
            if self.contents is None:
                self._look()
            if self.contents is not None:
                self.contents.before()
        except Exception:  # A measurement that fails must not end the loading.
            self.contents = None
        return self._collates

    def begun(self) -> int:
        """Return a word of the global random streams as the batch was begun; 0 with none."""
        return 0 if self.contents is None else self.contents.stream_word()

    def ended(self) -> Packed | None:
        """Return the states of the streams where the batch, made in a worker, has moved them."""
        if self.contents is None or self.worker < 0 or not self.contents.left():
            return None
        return pack_streams(self._generators)

    @property
    def collates(self) -> bool:
        """What the flag says."""
        return self._collates

    def _look(self) -> None:
        info = get_worker_info()
        dataset = self._dataset if info is None else info.dataset
        self.worker = -1 if info is None else info.id
        self._generators = dataset_generators(dataset)
        states = self._resume.get(info.id) if info is not None else None
        if states is not None:
            restore_states(states, self._generators)
        self.contents = ContentsProbe(
            dataset, in_worker=info is not None, generators=self._generators
        )


class Collating:
    """Calls the program's `collate_fn` and puts what it returns into an envelope.

    Args:
        collate: The program's function.
        begin: Knows how the batch was begun.
    """

    def __init__(self, collate: Callable[[Any], Any], begin: Begin) -> None:
        self._collate = collate
        self._begin = begin

    def __call__(self, samples: Any) -> Envelope:
        """Return the batch in an envelope."""
        # Before it is collated: a `collate_fn` may take its samples apart.
        contents = self._begin.contents if self._begin.collates else None
        if contents is not None:
            contents.fetched(samples, keeps_rows=keeps_rows(self._collate))
        batch = self._collate(samples)
        return Envelope(batch, self._facts(batch, contents))

    def _facts(self, batch: Any, contents: ContentsProbe | None) -> Facts:
        begin = self._begin
        try:
            seen = contents.collated(batch) if contents is not None else None
            digest = contents.batch_word if contents is not None else 0
            if not digest and not (contents is not None and contents.passes_batch):
                digest = value_word(batch)
            return Facts(
                digest=digest,
                samples=contents.sample_words if contents is not None else (),
                stream_word=begin.begun(),
                states=begin.ended(),
                worker=begin.worker,
                contents=seen,
            )
        except Exception as error:  # The loop gets its batch; what is not known is told.
            return Facts(fault=f"{type(error).__name__}: {error}")


def begin_of(flag: Any) -> Begin | None:
    """Return the object that stands for a loader's flag; None where it is the flag itself."""
    return flag if isinstance(flag, Begin) else None
