"""Which tensors are copies of one another, and which of them no longer are.

Every rank decides from the same layouts and the same digests, so that all come to the same answer
with no further word between them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from everybit.core.damage import Role
from everybit.guard.replicas.layout import parameter_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.grid import Words
    from everybit.guard.replicas.layout import Column, Layout

OWN_WEIGHTS: Final = "each rank has its own weights: nothing keeps them equal"
OWN_BUFFER: Final = "each rank has its own: it is not broadcast, or written in each call"
_TOLD: Final = "its copies differ, as was told"


@dataclass(frozen=True)
class Class:
    """Tensors that the same ranks hold copies of.

    Attributes:
        ranks: The ranks, ascending.
        key: A word that stands for the ranks and the tensors (63 bits, not 0).
        columns: This rank's columns, in an order that is the same on all of them.
    """

    ranks: tuple[int, ...]
    key: int
    columns: np.ndarray[tuple[int], np.dtype[np.intp]]

    def digest(self, words: Words) -> int:
        """Return a word that stands for the digests of all of them (63 bits)."""
        return xxhash.xxh3_64_intdigest(words[self.columns].tobytes()) >> 1


@dataclass(frozen=True)
class Parted:
    """Copies of one tensor that are not the same.

    Attributes:
        column: The tensor.
        words: Each rank's digest.
        culprits: The ranks that are wrong; where that is not known, all.
        named_by: What tells so: `majority`, `own finding`, or "".
    """

    column: Column
    words: Mapping[int, int]
    culprits: tuple[int, ...]
    named_by: str

    @property
    def tellers(self) -> tuple[int, ...]:
        """The ranks that tell of it: those that are wrong, or the lowest where nobody knows."""
        return self.culprits if self.named_by else (min(self.words),)

    @property
    def source(self) -> int:
        """The lowest rank that holds another copy: a right one, where it is known who is wrong."""
        (teller, *_) = self.tellers
        return min(
            rank
            for rank, word in self.words.items()
            if rank not in self.tellers and word != self.words[teller]
        )


@dataclass
class Copies:
    """The tensors that have copies, of one set of layouts.

    Args:
        layouts: Of all ranks, in order.
        rank: This process's.

    Attributes:
        off: Tensors that are not compared, and why.
        settled: They were compared before.
    """

    layouts: Sequence[Layout]
    rank: int
    off: dict[str, str] = field(default_factory=dict)
    settled: bool = False
    _told: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    _again: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    _equal: Words | None = None

    def __post_init__(self) -> None:
        places: dict[tuple[str, str], dict[int, int]] = {}
        for rank, layout in enumerate(self.layouts):
            for index, column in enumerate(layout.columns):
                places.setdefault((column.name, column.key), {})[rank] = index
        self._groups = [
            (self.layouts[min(by_rank)].columns[by_rank[min(by_rank)]], by_rank)
            for by_rank in places.values()
            if len(by_rank) > 1 and self.rank in by_rank
        ]
        self._groups.sort(key=lambda group: (group[0].name, group[0].key))

    @property
    def num_compared(self) -> int:
        """How many of this rank's tensors are compared."""
        return sum(len(each.columns) for each in self.classes)

    @property
    def ranks(self) -> list[int]:
        """The ranks that hold a copy of anything of this rank's, this one among them."""
        return sorted({self.rank}.union(*(by_rank for _, by_rank in self._groups)))

    @property
    def declared(self) -> bool:
        """Whether the program keeps any of them equal."""
        return any(column.declared for column, _ in self._groups)

    @cached_property
    def classes(self) -> list[Class]:
        """The classes that this rank belongs to."""
        members: dict[tuple[int, ...], list[tuple[str, int]]] = {}
        for column, by_rank in self._groups:
            if column.name not in self.off:
                ranks = tuple(sorted(by_rank))
                members.setdefault(ranks, []).append((column.name, by_rank[self.rank]))
        return [
            Class(
                ranks,
                (xxhash.xxh3_64_intdigest(repr((ranks, [n for n, _ in each])).encode()) >> 1) or 1,
                np.array([index for _, index in each], np.intp),
            )
            for ranks, each in sorted(members.items())
        ]

    def note_equal(self, words: Words) -> None:
        """Take note that all copies agree.

        Args:
            words: uint64, this rank's digests.
        """
        self._equal = words
        self._again.clear()

    def compare(
        self, words: Mapping[int, Words], known: Mapping[int, frozenset[str]], *, heals: bool
    ) -> list[Parted]:
        """Compare the digests of all ranks; return copies that parted and have to be told.

        Args:
            words: uint64, one row a rank of `ranks`, in the order of its layout.
            known: Owners (see `owner_of`) of what each rank's other checks have found damaged.
            heals: What is told is healed, and compared again; else it is compared no more.
        """
        parted = [
            (column, values)
            for column, by_rank in self._groups
            if column.name not in self.off
            for values in [{rank: int(words[rank][at]) for rank, at in by_rank.items()}]
            if len(set(values.values())) > 1
        ]
        self._drop_own(parted)
        told = [
            _parted(column, values, known)
            for column, values in parted
            if column.name not in self.off
        ]
        again, self._again = self._again, {(each.column.name, each.culprits) for each in told}
        if not heals:
            fresh = [each for each in told if not self._follows(each, known)]
            self.off |= dict.fromkeys((each.column.name for each in told), _TOLD)
            self._told |= {_mark(each) for each in fresh}
        else:
            # What was told a round ago, and is still there, could not be healed.
            fresh = [e for e in told if (e.column.name, e.culprits) not in again]
            self.off |= {each.column.name: _TOLD for each in told if each not in fresh}
        self.settled = True
        self.__dict__.pop("classes", None)  # Some may be off since.
        if not parted:
            self._equal = words[self.rank]
        return fresh

    def shares(self, parted: Sequence[Parted]) -> dict[tuple[int, ...], float]:
        """Return, by the ranks that are wrong, which share of all parameters parted there."""
        owners = {owner_of(c.name) for c, _ in self._groups if c.role is Role.PARAMETER}
        wrong: dict[tuple[int, ...], set[str]] = {}
        for each in parted:
            wrong.setdefault(each.culprits, set()).add(owner_of(each.column.name))
        return {ranks: len(names & owners) / max(len(owners), 1) for ranks, names in wrong.items()}

    def _follows(self, parted: Parted, known: Mapping[int, frozenset[str]]) -> bool:
        """Whether it is the consequence of what was told before."""
        owner = owner_of(parted.column.name)
        if _mark(parted) in self._told:
            return True
        return bool(parted.named_by) and all(owner in known[rank] for rank in parted.culprits)

    def _drop_own(self, parted: Sequence[tuple[Column, Mapping[int, int]]]) -> None:
        """Compare no more what nothing keeps equal, and what has turned out not to be."""
        loose = [(column, values) for column, values in parted if not column.declared]
        weights = [each for each in loose if each[0].role is not Role.BUFFER]
        for column, values in loose:
            if column.role is Role.BUFFER and not self._stood(column, values):
                self.off[column.name] = OWN_BUFFER
        if not weights:
            return
        all_loose = [
            column.name
            for column, _ in self._groups
            if not column.declared and column.role is not Role.BUFFER
        ]
        if not self.settled:
            # Random weights of several models part at once; what is left equal says nothing.
            several = any(column.role is Role.PARAMETER for column, _ in weights)
            names = all_loose if several else [column.name for column, _ in weights]
            self.off |= dict.fromkeys(names, OWN_WEIGHTS)
        elif 2 * len(weights) > len(all_loose) or not all(_majority(v) for _, v in weights):
            self.off |= dict.fromkeys(all_loose, OWN_WEIGHTS)

    def _stood(self, column: Column, values: Mapping[int, int]) -> bool:
        """Whether most ranks hold the buffer as all did when they last agreed."""
        most = _majority(values)
        if most is None or self._equal is None:
            return False
        at = next(by_rank[self.rank] for known, by_rank in self._groups if known is column)
        return int(self._equal[at]) == most


def owner_of(name: str) -> str:
    """Return the parameter that a column belongs to: its state and its gradient follow it.

    >>> owner_of("AdamW::exp_avg::head.weight"), owner_of("gradient of head.weight")
    ('head.weight', 'head.weight')
    """
    return parameter_name(name).rpartition("::")[2]


def _mark(parted: Parted) -> tuple[str, tuple[int, ...]]:
    return owner_of(parted.column.name), parted.culprits


def _majority(values: Mapping[int, int]) -> int | None:
    """Return the digest that more than half of three or more ranks have."""
    (word, count), *_ = Counter(values.values()).most_common(1)
    return word if len(values) > 2 and 2 * count > len(values) else None


def _parted(
    column: Column, values: Mapping[int, int], known: Mapping[int, frozenset[str]]
) -> Parted:
    most = _majority(values)
    if most is not None:
        culprits = tuple(sorted(rank for rank, word in values.items() if word != most))
        return Parted(column, values, culprits, "majority")
    owner = owner_of(column.name)
    own = tuple(sorted(rank for rank in values if owner in known[rank] or "" in known[rank]))
    if 0 < len(own) < len(values):
        return Parted(column, values, own, "own finding")
    return Parted(column, values, tuple(sorted(values)), "")
