"""Looks on while batches are fetched, in the process that fetches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torch.utils.data import IterableDataset

from everybit.core.contents import BatchFacts, Pairing, SampleWords, StreamFact
from everybit.probe.contents import blocks
from everybit.probe.contents.changes import Changes, changes_of
from everybit.probe.contents.handles import inherited
from everybit.probe.contents.nesting import Nesting, handles_errors
from everybit.probe.contents.pairing import compare_rows
from everybit.probe.contents.rows import pairs_rows, sample_words
from everybit.probe.contents.streams import Streams
from everybit.probe.contents.survey import survey
from everybit.probe.contents.truncated import Truncated
from everybit.probe.contents.words import (
    LARGE_BYTES,
    bytes_of,
    folded,
    leaves_of,
    word_of_leaf,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Batches of an epoch, in each process, whose rows are compared with their samples.
PAIRED_BATCHES: Final = 4
#: Batches of a worker behind which it looks at what it holds open.
HANDLE_BATCHES: Final = (0, 1, 3, 7, 15, 31, 63)
#: Samples of a batch that get words of their own.
MAX_SAMPLES: Final = 4096
#: Leaves of a sample that are told apart; of one with more none is.
MAX_LEAVES: Final = 8
#: Batches of a process, and their bytes, that have all words; beyond, one in so many has them.
FULL_BATCHES: Final = 64
FULL_BYTES: Final = 1 << 26
EVERY: Final = 16
_NOTHING: Final = type(None)


class ContentsProbe:
    """One a fetcher: made when it is made, asked around each batch. It never raises.

    Reading the states of the streams costs a few microseconds, before and after the samples are
    read. Words of samples and batch cost the time of hashing their bytes once each, so only the
    first batches of a process have them all; after these one batch in 16, and every small batch as
    a whole; of a large one parts of its bytes are read. Samples of an iterable dataset have nothing
    but their words to be known by: all of them have one.

    Args:
        dataset: The dataset of this process.
        in_worker: Nothing else happens in this process between two batches.
        generators: Generators of the dataset to be looked at beside those that are found.

    Attributes:
        sample_words: A word (XXH3-64) for each sample fetched last, once its batch is collated;
            empty where there are none.
        batch_word: The same for the batch collated last, 0 with none.
        passes_samples: Those fetched last are passed over, for what their words would cost.
        passes_batch: The same for the batch collated last.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        in_worker: bool = False,
        generators: Mapping[str, Any] | None = None,
    ) -> None:
        self.sample_words: tuple[int, ...] = ()
        self.batch_word = 0
        self.passes_samples = self.passes_batch = False
        self._failed = False
        self._num_batches = 0
        self._num_bytes = 0
        self._iterable = isinstance(dataset, IterableDataset)
        self._samples: Sequence[Any] = ()
        self._words: SampleWords | None = None
        self._drew = self._keeps_rows = False
        self._moved: tuple[StreamFact, ...] = ()
        self._nesting = Nesting(())
        self._handles = False
        self._truncated = Truncated()
        quiet = in_worker and not self._iterable
        self._streams = Streams(generators or {}, quiet_between=quiet)
        # Forked workers may read through what the data set has open.
        self._open_in = dataset if in_worker else None
        self._changes: Changes | None = None
        try:
            found = survey(dataset)
            if not found.handles:
                self._open_in = None
            if not in_worker:
                self._changes = changes_of(dataset)
            known = {id(each) for each in found.generators.values()}
            more = {n: g for n, g in (generators or {}).items() if id(g) not in known}
            self._streams = Streams(found.generators | more, quiet_between=quiet)
            self._nesting = Nesting(found.datasets.values())
            self._handles = any(handles_errors(each) for each in found.datasets.values())
        except Exception:  # It cannot be looked through; samples and batches still can.
            self._handles = False

    def before(self) -> None:
        """Look before the dataset is read for a batch."""
        if not self._failed:
            self._call(self._before)

    def fetched(self, samples: Sequence[Any], *, keeps_rows: bool = False) -> None:
        """Look at what the dataset gave, in order, before collate gets it.

        Args:
            samples: The samples.
            keeps_rows: Collate copies their tensors, and writes into none.
        """
        if not self._failed:
            self._call(self._fetched, samples, keeps_rows)

    def collated(self, batch: Any) -> BatchFacts | None:
        """Look at the batch; returns what was seen, None where nothing could be."""
        self.batch_word = 0
        if self._failed:
            return None
        facts: BatchFacts | None = self._call(self._collated, batch)
        self._samples, self._words = (), None
        self._num_batches += 1
        return facts

    def stream_word(self) -> int:
        """Return a word of the global random streams as the batch was begun; 0 with none."""
        return self._streams.word()

    def left(self) -> bool:
        """Look when the batch is made; whether a stream moved since it was begun."""
        return self._streams.left()

    def close(self) -> None:
        """Leave everything as it was."""
        self._nesting.close()
        self._truncated.close()

    def _call(self, look: Any, *args: Any) -> Any:
        try:
            return look(*args)
        except Exception:  # Whatever it is, the batch goes on without us.
            self._failed = True
            self.passes_samples = self.passes_batch = False
            self.sample_words, self.batch_word = (), 0
            self.close()
            return None

    def _before(self) -> None:
        self._streams.begin()
        self._truncated.begin()
        if self._changes is not None:
            self._changes.begin()

    def _is_chosen(self) -> bool:
        """Whether the batch is one that has all words: the same ones in every epoch and run."""
        first = self._num_batches < FULL_BATCHES and self._num_bytes < FULL_BYTES
        return first or self._iterable or self._num_batches % EVERY == 0

    def _is_paired(self, samples: Sequence[Any]) -> bool:
        """Whether rows are to be compared with their samples: collate may have moved them."""
        if self._num_batches >= PAIRED_BATCHES or not 1 < len(samples) <= MAX_SAMPLES:
            return False
        return not (self._keeps_rows and pairs_rows())

    def _fetched(self, samples: Sequence[Any], keeps_rows: bool) -> None:
        if self._changes is not None:
            self._changes.end()
        self._drew, self._moved = self._streams.end()
        self._samples = samples
        self.passes_samples = len(samples) > MAX_SAMPLES or not self._is_chosen()
        self.sample_words, self._words = (), None
        self._keeps_rows = keeps_rows
        # Taken before collate where that may write into them.
        if not self.passes_samples and not keeps_rows:
            self.sample_words, self._words = sample_words(samples)

    def _collated(self, batch: Any) -> BatchFacts:
        samples = self._samples
        pairing: Pairing | None = None
        if self._is_paired(samples):
            pairing = compare_rows(samples, batch)
        known: dict[str, int] = {}
        if self._keeps_rows and not self.passes_samples:
            self.sample_words, self._words = sample_words(samples, batch, known)
        leaves = leaves_of(batch)
        size = bytes_of(leaves)
        is_large = size > LARGE_BYTES
        self.passes_batch = is_large and not self._is_chosen()
        whole = leaves
        if self.passes_batch:
            whole = [each for each in leaves if blocks.is_small(each[1])]
        words = [
            (path, known[path] if path in known else word_of_leaf(leaf)) for path, leaf in whole
        ]
        self._num_bytes += size
        self.batch_word = 0 if self.passes_batch else folded(words)
        return BatchFacts(
            streams=self._moved,
            drew=self._drew,
            leaves=tuple(words),
            blocks=tuple(blocks.blocks_of(leaves)) if is_large else (),
            samples=_told_apart(self._words),
            stand_ins=self._nesting.take() if self._nesting.found else (),
            absent=_absent(samples) if _NOTHING in map(type, samples) else (),
            pairing=pairing,
            truncated=self._truncated.take() if self._truncated.found else (),
            handles=self._handles,
            inherited=None if self._open_in is None else self._inherited(),
        )

    def _inherited(self) -> tuple[str, ...] | None:
        if self._num_batches not in HANDLE_BATCHES:
            return None
        return inherited(survey(self._open_in).handles)


def _absent(samples: Sequence[Any]) -> tuple[int, ...]:
    return tuple(place for place, sample in enumerate(samples) if sample is None)


def _told_apart(words: SampleWords | None) -> SampleWords | None:
    return words if words is not None and len(words.paths) <= MAX_LEAVES else None
