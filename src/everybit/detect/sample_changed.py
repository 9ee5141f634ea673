"""DAT406 and DAT413: a sample holds other bytes, or another label, than when it was first read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import rule
from everybit.detect.batch_place import MAX_NAMED, facts_of_batch, name_samples, place_of_batch

if TYPE_CHECKING:
    from everybit.core.contents import SampleWords
    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord

#: Share of the samples read again that may differ before the reading itself is taken for random.
FEW: Final = 0.05
#: Samples read again below which nothing is said of single ones.
LEAST: Final = 16
#: Samples of which the first words are kept; 8 bytes a leaf and sample.
MAX_KEPT: Final = 1 << 24
_LABELS: Final = ("label", "labels", "target", "targets", "y", "class", "1")
_DREW: Final = 1


@dataclass(slots=True)
class _Leaf:
    words: Any
    num_changed: int = 0
    changed: list[int] = field(default_factory=list)


class SampleBook:
    """The words of a loader's samples as they were first read.

    A sample is compared where no random stream that can be seen was drawn from, then or now.

    Args:
        length: Samples of the data set; None where it has no length: then nothing is kept.

    Attributes:
        num_compared: Samples that were read again and compared.
        num_drawn: Samples that were read again while a random stream was drawn from.
        unsettled: Why differences that were seen are no finding, else "".
    """

    def __init__(self, length: int | None) -> None:
        self.num_compared = 0
        self.num_drawn = 0
        self.unsettled = ""
        self._length = length if length is not None and length <= MAX_KEPT else 0
        self._leaves: dict[str, _Leaf] = {}
        self._flags: Any = None
        self._first: SampleRecord | None = None
        self._told: set[str] = set()
        self._alone: dict[str, list[int]] = {}

    def read(self, record: SampleRecord, samples: SampleWords, *, drew: bool) -> None:
        """Take the samples of a batch.

        Args:
            record: The batch; without indices it is passed over.
            samples: Words of its samples.
            drew: A random stream was drawn from while they were read.
        """
        indices = record.indices
        if not self._length or indices is None or record.hashed:
            return
        if len(indices) != len(samples.words[0]):
            return
        import numpy as np

        if not indices or min(indices) < 0 or max(indices) >= self._length:
            return
        where = np.array(indices, np.int64)
        if self._flags is None:
            self._flags = np.zeros(self._length, np.uint8)
        known = None
        differs = {}
        for path, words in zip(samples.paths, samples.words, strict=True):
            leaf = self._leaves.get(path)
            if leaf is None:
                leaf = self._leaves[path] = _Leaf(np.zeros(self._length, np.uint64))
            now, before = np.array(words, np.uint64), leaf.words[where]
            if not before.any():  # All are read for the first time, as in a first epoch.
                leaf.words[where] = now
                continue
            both = (before != 0) & (now != 0)
            known = both if known is None else known | both
            differs[path] = both & (before != now)
            leaf.words[where] = np.where(before == 0, now, before)
        if drew and known is None:
            self._flags[where] = _DREW
        if known is None:
            return
        steady = known & (self._flags[where] != _DREW) & (not drew)
        self.num_drawn += int((known & ~steady).sum())
        self.num_compared += int(steady.sum())
        if drew:
            self._flags[where] = _DREW
        for path, here in differs.items():
            changed = where[here & steady]
            if len(changed):
                self._first = self._first or record
                self._note(
                    path, changed, [d[here & steady] for p, d in differs.items() if p != path]
                )

    def judge(self, *, written: tuple[str, ...] = ()) -> list[Finding]:
        """Return what is known at the end of an epoch.

        Args:
            written: Arrays of the data set whose bytes changed while samples were read.
        """
        found = []
        for path, leaf in self._leaves.items():
            if not leaf.num_changed or path in self._told or self._first is None:
                continue
            few = leaf.num_changed <= FEW * self.num_compared and self.num_compared >= LEAST
            alone = self._alone.get(path, [])
            is_label = path in _LABELS and len(self._leaves) > 1
            if is_label and len(alone) == len(leaf.changed):
                found.append(_label_changed(self._first, leaf, path))
            elif few or written:
                found.append(_changed(self._first, leaf, path, self.num_compared, written))
            else:
                self.unsettled = (
                    f"{leaf.num_changed} of {self.num_compared} samples read again differ: if they"
                    " are augmented at random, by a stream that cannot be seen, that is as it"
                    " should be"
                )
                continue
            self._told.add(path)
        return found

    def twins(self) -> list[tuple[int, int]]:
        """Return pairs of indices whose samples were the same in every leaf when first read."""
        if not self._leaves:
            return []
        import numpy as np

        words = np.stack([leaf.words for leaf in self._leaves.values()], axis=1)
        read = np.flatnonzero((words != 0).all(axis=1))
        _, first, inverse = np.unique(words[read], axis=0, return_index=True, return_inverse=True)
        again = first[inverse.reshape(-1)]
        here = np.flatnonzero(again != np.arange(len(read)))
        return [(int(read[again[place]]), int(read[place])) for place in here]

    @property
    def num_read(self) -> int:
        """Samples that were read so far."""
        if not self._leaves:
            return 0
        return int((next(iter(self._leaves.values())).words != 0).sum())

    def _note(self, path: str, changed: Any, others: list[Any]) -> None:
        leaf = self._leaves[path]
        leaf.num_changed += len(changed)
        room = max(0, MAX_NAMED - len(leaf.changed))
        leaf.changed += [int(index) for index in changed[:room]]
        alone = [
            int(i) for place, i in enumerate(changed[:room]) if not any(o[place] for o in others)
        ]
        self._alone.setdefault(path, []).extend(alone)


def _changed(
    record: SampleRecord, leaf: _Leaf, path: str, compared: int, written: tuple[str, ...]
) -> Finding:
    by = f"; {', '.join(written[:3])} was written while samples were read" if written else ""
    return rule("DAT406").finding(
        f"{_which(leaf)} of {record.loader} {'holds' if leaf.num_changed == 1 else 'hold'} other"
        f" bytes than when first read ({leaf.num_changed} of {compared} read again){by}",
        where=place_of_batch(record, sample=leaf.changed[0]),
        evidence={
            "kind": "written" if written else "changed",
            **facts_of_batch(record),
            "leaf": path,
            "samples": leaf.changed,
            "num_changed": leaf.num_changed,
            "num_compared": compared,
            "written": list(written),
        },
        remedy="Copy before an operation in place: the data set's own memory was written."
        if written
        else "",
    )


def _label_changed(record: SampleRecord, leaf: _Leaf, path: str) -> Finding:
    return rule("DAT413").finding(
        f"{_which(leaf)} of {record.loader} came with another label than when first read, the"
        " input is the same",
        where=place_of_batch(record, sample=leaf.changed[0]),
        evidence={
            "kind": "label changed",
            **facts_of_batch(record),
            "leaf": path,
            "samples": leaf.changed,
            "num_changed": leaf.num_changed,
        },
        severity=Severity.WARNING,
        certainty=Certainty.STRONG,
    )


def _which(leaf: _Leaf) -> str:
    if leaf.num_changed <= 4:
        return name_samples(leaf.changed)
    return f"{leaf.num_changed} samples"
