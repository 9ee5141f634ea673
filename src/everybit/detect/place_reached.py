"""DAT407 without keys: whether the samples that were passed over lead to the place that was saved.

An iterable data set is begun anew and its samples are passed over. Where it draws augmentation from
a stream that the training draws from too, they are made with other draws than they were the first
time; the place is the right one all the same. What leads to it is the order: a part of the samples
that is not augmented (a label, an id) has the same words in the same order, and samples that were
exchanged have their words at other places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.contents import SampleWords

#: Words of each part that are kept with their places: the smallest ones, so that two runs that
#: had the same samples have kept the same.
KEPT: Final = 64
#: Samples unlike the one before them from which on a part tells one order from another.
ENOUGH: Final = 12
_MASK: Final = (1 << 64) - 1


class Place(StrEnum):
    """What is known of a place that was come to."""

    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class _Part:
    chain: int = 0
    changes: int = 0
    last: int = 0
    repeated: bool = False
    blind: bool = False
    kept: dict[int, int] = field(default_factory=dict)
    bound: int = _MASK

    def take(self, words: Sequence[int], at: int) -> None:
        """Take the words of a batch that begins at a sample."""
        if not words:
            return
        self.chain = hash((self.chain, tuple(words))) & _MASK
        self.blind = self.blind or 0 in words
        if self.changes < ENOUGH:
            before = [self.last if at else words[0], *words[:-1]]
            self.changes += sum(a != b for a, b in zip(before, words, strict=True))
        self.last = words[-1]
        for place, word in enumerate(words, at):
            if word > self.bound:
                continue
            if word in self.kept:
                self.repeated = True
                continue
            self.kept[word] = place
            if len(self.kept) > KEPT:
                del self.kept[max(self.kept)]
                self.bound = max(self.kept)

    def tells(self, count: int) -> bool:
        """Whether another order would show in it."""
        return not self.blind and (
            self.changes >= ENOUGH or (not self.repeated and count >= 2 and self.changes > 0)
        )

    def is_moved(self, other: _Part) -> bool:
        """Whether samples have changed places against another run's part."""
        if self.blind or other.blind or self.chain == other.chain:
            return False
        if self.repeated and other.repeated:  # Labels: the same few, in another order.
            return self.kept.keys() == other.kept.keys() and len(self.kept) < KEPT
        return any(other.kept.get(word, place) != place for word, place in self.kept.items())


@dataclass(slots=True)
class Passed:
    """The samples that came so far, a part (leaf) at a time.

    Attributes:
        num_samples: How many.
        drew: A random stream was drawn from while they were read.
    """

    num_samples: int = 0
    drew: bool = False
    _parts: dict[str, _Part] = field(default_factory=dict)

    def take(self, samples: SampleWords | None, count: int, *, drew: bool) -> None:
        """Take the samples of a batch.

        Args:
            samples: Their words; None where they are not of one form.
            count: How many they are.
            drew: A random stream was drawn from while they were read.
        """
        self.drew = self.drew or drew
        if samples is None or (self.num_samples and samples.paths != tuple(self._parts)):
            self._parts = {path: _Part(blind=True) for path in self._parts}
        else:
            for path, words in zip(samples.paths, samples.words, strict=True):
                self._parts.setdefault(path, _Part()).take(words, self.num_samples)
        self.num_samples += count

    def against(self, saved: Passed) -> Place:
        """Tell whether these lead to where those led that were saved."""
        both = [(p, saved._parts[path]) for path, p in self._parts.items() if path in saved._parts]
        if self.num_samples != saved.num_samples:
            return Place.OTHER
        if any(
            here.chain == there.chain and here.tells(self.num_samples) and not there.blind
            for here, there in both
        ):
            return Place.SAME
        if any(here.is_moved(there) for here, there in both):
            return Place.OTHER
        return Place.UNKNOWN if self.drew or saved.drew else Place.OTHER

    def to_state(self) -> dict[str, Any]:
        """Return it as plain values."""
        parts = {
            path: [part.chain, part.changes, part.repeated, part.blind, list(part.kept.items())]
            for path, part in self._parts.items()
        }
        return {"num_samples": self.num_samples, "drew": self.drew, "parts": parts}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it back, to compare with; it is gone on with by passing over the samples anew."""
        parts = {
            path: _Part(
                chain=chain,
                changes=changes,
                repeated=repeated,
                blind=blind,
                kept=dict(map(tuple, kept)),
            )
            for path, (chain, changes, repeated, blind, kept) in state["parts"].items()
        }
        return cls(num_samples=state["num_samples"], drew=state["drew"], _parts=parts)
