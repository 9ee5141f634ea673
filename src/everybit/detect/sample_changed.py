"""DAT406 and DAT413: a sample holds other bytes, or another label, than when it was first read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import rule
from everybit.detect.batch_place import MAX_NAMED, facts_of_batch, name_samples, place_of_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.contents import SampleWords
    from everybit.core.finding import Finding
    from everybit.core.samples import SampleRecord

#: Share of the samples read again that may differ before the reading itself is taken for random.
FEW: Final = 0.05
#: Samples read again below which nothing is said of single ones.
LEAST: Final = 16
#: Samples of which the first words are kept; 8 bytes a leaf and sample.
MAX_KEPT: Final = 1 << 24
#: Samples that are looked at once more where a plain attribute may explain them.
MAX_WAITING: Final = 1 << 12
#: Samples of a part that are asked whether they are of fewer bits than others.
MAX_ROUNDED: Final = 1 << 8
#: Samples, and share of a pass, that hold each other's labels from which on it is no chance.
ENOUGH: Final = 8
MANY: Final = 0.35
_LABELS: Final = ("label", "labels", "target", "targets", "y", "class", "1")
_DREW: Final = 1


@dataclass(slots=True)
class _Leaf:
    """One part of the samples.

    Attributes:
        words: The first word of each sample; 0 where it was not read. A column of the table.
        num_changed: Samples that differ though nothing explains it.
        num_explained: Samples that differ, and the program had set something since.
        num_alone: Of both, those of which no other part differs.
        changed: The first that nothing explains.
        explained: The first of the others.
        waiting: Words of explained samples, and how often plain attributes had been set by then.
        before: Sum of the first words of the samples that were read again in this pass.
        now: Sum of their words in this pass.
        num_again: How many these are.
        num_differing: How many of them differ.
    """

    words: Any
    num_changed: int = 0
    num_explained: int = 0
    num_alone: int = 0
    changed: list[int] = field(default_factory=list)
    explained: list[int] = field(default_factory=list)
    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)
    before: int = 0
    now: int = 0
    num_again: int = 0
    num_differing: int = 0

    @property
    def is_permuted(self) -> bool:
        """Whether the samples of this pass hold each other's first words.

        Labels that a model gives are as many of each kind by chance where only some are others.
        """
        many = max(ENOUGH, MANY * self.num_again)
        return self.num_differing >= many and (self.before - self.now) % (1 << 64) == 0

    @property
    def all_changed(self) -> list[int]:
        """The first samples that differ."""
        return [*self.changed, *self.explained][:MAX_NAMED]


class SampleBook:
    """The words of a loader's samples as they were first read.

    A sample is compared where no random stream that can be seen was drawn from, then or now. What a
    program sets between two passes (a plain attribute, an array, an object) may be what a sample
    follows from: then the difference is explained. A plain attribute that is set once more, while
    the sample stays as it is by then, explains nothing.

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
        self._paths: tuple[str, ...] = ()
        self._table: Any = None
        self._marks: Any = None
        self._num_again = 0
        self._flags: Any = None
        self._has_drawn = False
        self._first: SampleRecord | None = None
        self._told: set[str] = set()
        self._num_rounded = 0
        self._version: tuple[int, int] | None = None

    def read(
        self,
        record: SampleRecord,
        samples: SampleWords,
        *,
        drew: bool,
        version: tuple[int, int] = (0, 0),
        is_rounded: Callable[[str, int], bool] = lambda _path, _row: False,
    ) -> None:
        """Take the samples of a batch.

        Args:
            record: The batch; without indices it is passed over.
            samples: Words of its samples.
            drew: A random stream was drawn from while they were read.
            version: How often the program set plain attributes of the data set, and other things
                that it holds.
            is_rounded: Whether a sample's part, by its path and row, is of fewer bits than it was
                in the first batch: it comes from a cache that keeps fewer.
        """
        indices = record.indices
        if not self._length or not indices or record.hashed:
            return
        if len(indices) != samples.num_samples:
            return
        if min(indices) < 0 or max(indices) >= self._length:
            return
        if self._table is None:
            self._begin(samples.paths, version)
        if samples.paths != self._paths or not self._read_at_once(indices, samples, drew=drew):
            self._read_by_leaf(indices, record, samples, drew, version, is_rounded)

    def _begin(self, paths: tuple[str, ...], version: tuple[int, int]) -> None:
        import numpy as np

        words = np.zeros((self._length, len(paths)), np.uint64)
        self._paths, self._version = paths, version
        self._leaves = {path: _Leaf(words[:, place]) for place, path in enumerate(paths)}
        self._flags = np.zeros(self._length, np.uint8)
        self._table, self._marks = words.data.cast("B"), self._flags.data

    def _read_at_once(self, indices: tuple[int, ...], samples: SampleWords, *, drew: bool) -> bool:
        """Take a batch whose samples are new, or what they were; whether it was one.

        Gone through one by one: whoever waits for a worker in between finds NumPy's code gone from
        the processor's caches, and pays five times as much for it.
        """
        table, packed, marks = self._table, samples.packed, self._marks
        size = 8 * len(samples.paths)
        nothing = bytes(size)
        if nothing[:8] in packed:  # Some value may have no word.
            return False
        new: list[tuple[int, bytes]] = []
        known: list[int] = []
        at = 0
        for index in indices:
            word = packed[at : at + size]
            at += size
            before = table[index * size : index * size + size].tobytes()
            if before == word:
                known.append(index)
            elif before == nothing:
                new.append((index * size, word))
            else:
                return False
        for place, word in new:
            table[place : place + size] = word
        # What was added up of the words, then and now, would be the same.
        self._num_again += len(known)
        num_steady = 0 if drew else len(known)
        if num_steady and self._has_drawn:
            num_steady = [marks[index] for index in known].count(0)
        self.num_compared += num_steady
        self.num_drawn += len(known) - num_steady
        if drew:
            self._has_drawn = True
            for index in indices:
                marks[index] = _DREW
        return True

    def _read_by_leaf(
        self,
        indices: tuple[int, ...],
        record: SampleRecord,
        samples: SampleWords,
        drew: bool,
        version: tuple[int, int],
        is_rounded: Callable[[str, int], bool],
    ) -> None:
        """Take a batch some of whose samples are others than they were."""
        import numpy as np

        where = np.array(indices, np.int64)
        known = np.zeros(len(where), bool)
        differs = {}
        columns = np.frombuffer(samples.packed, np.uint64).reshape(len(where), -1)
        for place, path in enumerate(samples.paths):
            leaf = self._leaves.get(path)
            if leaf is None:
                leaf = self._leaves[path] = _Leaf(np.zeros(self._length, np.uint64))
            now, before = columns[:, place], leaf.words[where]
            both = (before != 0) & (now != 0)
            known |= both
            differs[path] = both & (before != now)
            leaf.before += int(before[both].sum())
            leaf.now += int(now[both].sum())
            leaf.num_again += int(both.sum())
            leaf.words[where] = np.where(before == 0, now, before)
        steady = known & (self._flags[where] != _DREW) & (not drew)
        num_known, num_steady = int(known.sum()), int(steady.sum())
        self.num_drawn += num_known - num_steady
        self.num_compared += num_steady
        if drew:
            self._flags[where], self._has_drawn = _DREW, True
        for path, here in differs.items():
            rows = np.flatnonzero(here & steady).tolist()
            if not rows:
                continue
            self._first = self._first or record
            leaf, words = self._leaves[path], columns[:, samples.paths.index(path)].tolist()
            leaf.num_differing += len(rows)
            others = [other for name, other in differs.items() if name != path]
            for row in rows:
                # Where many differ it is no cache that was filled for a few.
                if leaf.num_changed + leaf.num_explained < MAX_ROUNDED and is_rounded(path, row):
                    self._num_rounded += 1
                    continue
                leaf.num_alone += not any(other[row] for other in others)
                self._note(leaf, indices[row], words[row], version)

    def judge(
        self,
        *,
        written: tuple[str, ...] = (),
        set_last: tuple[str, ...] = (),
        permuted: bool = False,
    ) -> list[Finding]:
        """Return what is known at the end of an epoch.

        Args:
            written: Arrays of the data set that were written while samples were read.
            set_last: What the program set last in the data set.
            permuted: The data set's own list of labels is another order of what it was.
        """
        found = []
        if self._num_rounded:
            self.unsettled = (
                f"{self._num_rounded} samples read again hold values of fewer bits than at first:"
                " a cache keeps them in a narrower type"
            )
        for path, leaf in self._leaves.items():
            number = leaf.num_changed + leaf.num_explained
            leaf.num_again += self._num_again if path in self._paths else 0
            is_permuted = leaf.is_permuted or permuted
            leaf.before = leaf.now = leaf.num_again = leaf.num_differing = 0
            if not number or path in self._told or self._first is None:
                continue
            few = leaf.num_changed <= FEW * self.num_compared and self.num_compared >= LEAST
            is_label = path in _LABELS and len(self._leaves) > 1 and leaf.num_alone == number
            told = bool(written) or (few and leaf.num_changed > 0)
            if is_label and (told or is_permuted):
                found.append(_label_changed(self._first, leaf, path))
            elif told:
                found.append(_changed(self._first, leaf, path, self.num_compared, written))
            else:
                self.unsettled = self._why(leaf, number, set_last, is_label=is_label)
                continue
            self._told.add(path)
        self._num_again = 0
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

    @property
    def size_bytes(self) -> int:
        """Bytes of the words that are kept."""
        return sum(int(leaf.words.nbytes) for leaf in self._leaves.values())

    def let_go(self) -> None:
        """Keep no words any more: the data set is gone. What was counted stays."""
        self._leaves = {}
        self._flags = self._table = self._marks = None
        self._length = 0

    def _note(self, leaf: _Leaf, index: int, word: int, version: tuple[int, int]) -> None:
        assert self._version is not None
        # An array is written in some places only: it explains a sample, or does not, for good.
        explained = version[1] != self._version[1]
        if not explained and version != self._version:
            last, plain = leaf.waiting.get(index, (word, version[0]))
            explained = last != word or plain == version[0]
            if len(leaf.waiting) < MAX_WAITING:
                leaf.waiting[index] = (word, version[0])
        named = leaf.explained if explained else leaf.changed
        leaf.num_explained += explained
        leaf.num_changed += not explained
        if len(named) < MAX_NAMED and index not in named:
            named.append(index)

    def _why(self, leaf: _Leaf, number: int, set_last: tuple[str, ...], *, is_label: bool) -> str:
        many = f"{number} of {self.num_compared} samples read again differ"
        if leaf.num_explained:
            by = f" ({', '.join(set_last[:3])})" if set_last else ""
            return (
                f"{many}, and the program had set something in the data set{by}: if they follow"
                " from that, it is as it should be"
            )
        if is_label:
            return f"{many} in their labels, which are no other order of what they were"
        return (
            f"{many}: if they are augmented at random, by a stream that cannot be seen, that is as"
            " it should be"
        )


def _changed(
    record: SampleRecord, leaf: _Leaf, path: str, compared: int, written: tuple[str, ...]
) -> Finding:
    by = f"; {', '.join(written[:3])} was written while samples were read" if written else ""
    number = leaf.num_changed + (leaf.num_explained if written else 0)
    samples = leaf.all_changed if written else leaf.changed
    return rule("DAT406").finding(
        f"{_which(samples, number)} of {record.loader} {'holds' if number == 1 else 'hold'} other"
        f" bytes than when first read ({number} of {compared} read again){by}",
        where=place_of_batch(record, sample=samples[0]),
        evidence={
            "kind": "written" if written else "changed",
            **facts_of_batch(record),
            "leaf": path,
            "samples": samples,
            "num_changed": number,
            "num_compared": compared,
            "written": list(written),
        },
        remedy="Copy before an operation in place: the data set's own memory was written."
        if written
        else "",
    )


def _label_changed(record: SampleRecord, leaf: _Leaf, path: str) -> Finding:
    number, samples = leaf.num_changed + leaf.num_explained, leaf.all_changed
    return rule("DAT413").finding(
        f"{_which(samples, number)} of {record.loader} came with another label than when first"
        " read, the input is the same",
        where=place_of_batch(record, sample=samples[0]),
        evidence={
            "kind": "label changed",
            **facts_of_batch(record),
            "leaf": path,
            "samples": samples,
            "num_changed": number,
        },
        severity=Severity.WARNING,
        certainty=Certainty.STRONG,
    )


def _which(samples: list[int], number: int) -> str:
    if number <= 4 and len(samples) == number:
        return name_samples(samples)
    return f"{number} samples"
