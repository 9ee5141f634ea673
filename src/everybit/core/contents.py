"""What the process that fetches a batch tells about its contents; plain values, small to send."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


class Moved(StrEnum):
    """What became of a random stream between two looks at its state."""

    NO = "no"
    DRAWN = "drawn"
    RESEEDED = "reseeded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFact:
    """A random stream that a fetching process used.

    Attributes:
        name: `python`, `numpy`, `torch` for the global ones; `dataset.<path>` for a generator that
            the dataset holds, `global <name>` for one that its code names.
        start: Digest word of its state when the process began to fetch in this epoch.
        moved: How it moved since.
    """

    name: str
    start: int
    moved: Moved

    @property
    def is_own(self) -> bool:
        """Whether it is the dataset's own, and not one of the process's global ones."""
        return " " in self.name or "." in self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWords:
    """Digest words of a batch's samples as `__getitem__` gave them.

    Attributes:
        paths: Paths of the leaves within a sample: `0`, `1`, `label`.
        packed: The words, 64 bits each in the machine's own order: those of the first sample, leaf
            by leaf, then those of the next. 0 stands where a value has no digest.
    """

    paths: tuple[str, ...]
    packed: bytes

    @classmethod
    def of(cls, paths: tuple[str, ...], words: Iterable[Iterable[int]]) -> Self:
        """Return them from the words of all samples, a leaf at a time.

        >>> SampleWords.of(("0", "1"), [(5, 6), (7, 8)]).words
        ((5, 6), (7, 8))
        """
        rows = zip(*words, strict=True)
        return cls(paths=paths, packed=array("Q", [word for row in rows for word in row]).tobytes())

    @property
    def num_samples(self) -> int:
        """How many samples they are of."""
        return len(self.packed) // (8 * len(self.paths))

    @property
    def words(self) -> tuple[tuple[int, ...], ...]:
        """For each leaf the words of all samples, in order."""
        words = array("Q", self.packed)
        return tuple(tuple(words[place :: len(self.paths)]) for place in range(len(self.paths)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """How the rows of a collated batch lie against the samples that it was made of.

    Attributes:
        steady: A leaf whose rows are the samples', each at its own place.
        astray: A leaf whose rows are the samples' too, but at other places.
        shift: How far they are rolled, where that is the whole of it; 0 where not.
        rows: The first rows that hold another sample's value.
    """

    steady: str
    astray: str
    shift: int = 0
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """What was seen while one batch was fetched, in the process that fetched it.

    Attributes:
        streams: Streams that moved for the first time in this epoch.
        drew: A random stream that can be seen moved while the samples were read.
        leaves: Digest word of each leaf of the batch, behind collate: `(path, word)`; of a large
            batch that is passed over, of its small leaves.
        blocks: Words of the large leaves of a large batch, by a part of their bytes.
        stand_ins: `(asked, given)`: samples for which the dataset gave another one's.
        absent: Places in the batch for which the dataset gave None.
        pairing: Rows of the batch that went astray; None where none did.
        truncated: Names of image files that end too early and were let through.
        handles: The code that reads samples handles exceptions.
        inherited: Where the data set of a worker holds open what its parent had opened, and nothing
            of its own in its place; None where that was not looked at.
        samples: Words of the samples; None where none could be taken.
    """

    streams: tuple[StreamFact, ...] = ()
    drew: bool = False
    leaves: tuple[tuple[str, int], ...] = ()
    blocks: tuple[tuple[str, int], ...] = ()
    stand_ins: tuple[tuple[int, int], ...] = ()
    absent: tuple[int, ...] = ()
    pairing: Pairing | None = None
    truncated: tuple[str, ...] = ()
    handles: bool = False
    inherited: tuple[str, ...] | None = None
    samples: SampleWords | None = None
