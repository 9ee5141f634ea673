"""Which tensors moved from one sibling to the next, and which did not although they should."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.files.checkpoints.snapshot import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.checkpoints.snapshot import Key, Snapshot

#: Below this many elements a half-precision weight may round back to the same bits by itself.
_MIN_HALF: Final = 4096
_MIN_FULL: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """What changed from a snapshot to a later one.

    Attributes:
        equal: Tensors with the same bytes, dtype and shape in both.
        moved: Tensors of the same dtype and shape and other bytes.
    """

    equal: frozenset[Key]
    moved: frozenset[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Siblings in the order of their steps, with their digests.

    Attributes:
        snapshots: At least two.
        digests: Of each snapshot's tensors.
        pairs: From each snapshot to the next.
    """

    snapshots: Sequence[Snapshot]
    digests: Sequence[dict[Key, str]]
    pairs: Sequence[Movement]

    def between(self, first: int, second: int) -> Movement:
        """Return what changed between any two snapshots."""
        return _compare(
            self.snapshots[first], self.digests[first],
            self.snapshots[second], self.digests[second],
        )  # fmt: skip

    @property
    def movable(self) -> frozenset[Key]:
        """What moved at any time."""
        return frozenset().union(*(pair.moved for pair in self.pairs))

    def held_back(self, pair: int) -> tuple[frozenset[Key], bool]:
        """Return what did not move in a pair although it did in every other, and how sure.

        Sure is what moved before and after. What was frozen until then, or is frozen from then on,
        is not held back; for the last pair nobody knows what comes after, so that is not sure.
        """
        before, after = self.pairs[:pair], self.pairs[pair + 1 :]
        if not before:
            return frozenset(), False
        others = [*before, *after]
        found = {
            key
            for key in self.pairs[pair].equal
            if all(key in other.moved for other in others) and self.moves_visibly(key)
        }
        return frozenset(found), bool(after)

    def moves_visibly(self, key: Key) -> bool:
        """Return whether a tensor is large enough that no step leaves all its bits as they were."""
        for snapshot in self.snapshots:
            held = snapshot.tensors.get(key)
            if held is not None:
                if held.role is not Role.MODEL:
                    return True
                few = _MIN_FULL if held.tensor.itemsize >= 4 else _MIN_HALF
                return held.tensor.num_elements >= few
        return False


def compare_series(snapshots: Sequence[Snapshot], digests: Sequence[dict[Key, str]]) -> Series:
    """Return the series with what moved in each of its pairs."""
    pairs = [
        _compare(snapshots[i], digests[i], snapshots[i + 1], digests[i + 1])
        for i in range(len(snapshots) - 1)
    ]
    return Series(snapshots=snapshots, digests=digests, pairs=pairs)


def _compare(
    one: Snapshot, first: dict[Key, str], other: Snapshot, second: dict[Key, str]
) -> Movement:
    equal: set[Key] = set()
    moved: set[Key] = set()
    for key, digest in first.items():
        if key not in second:
            continue
        a, b = one.tensors[key].tensor, other.tensors[key].tensor
        if (a.dtype, a.shape) == (b.dtype, b.shape):
            (equal if digest == second[key] else moved).add(key)
    return Movement(equal=frozenset(equal), moved=frozenset(moved))
