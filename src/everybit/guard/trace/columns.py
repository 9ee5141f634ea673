"""Names, digest words and block sums of one link, gathered in the order in which they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from everybit.core.observation import SumTable, TensorTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.core.link import Link
    from everybit.guard.readout import Word


class Column:
    """What a step gives at a link; words and rows may still be on an accelerator.

    Attributes:
        names: Unique names.
        words: A digest word for each.
        sum_names: Names of those whose block sums were taken.
        rows: The block sums.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.words: list[Word] = []
        self.sum_names: list[str] = []
        self.rows: list[torch.Tensor] = []

    def add(self, name: str, word: Word) -> None:
        """Add a digest."""
        self.names.append(name)
        self.words.append(word)

    def add_sums(self, name: str, row: torch.Tensor) -> None:
        """Add block sums."""
        self.sum_names.append(name)
        self.rows.append(row)

    def copy(self) -> Column:
        """Return what was gathered so far as one of its own."""
        other = Column()
        other.names, other.words = list(self.names), list(self.words)
        other.sum_names, other.rows = list(self.sum_names), list(self.rows)
        return other

    def table(self, link: Link, words: Iterable[int], known: SameNames) -> TensorTable:
        """Return the digests, read."""
        return TensorTable(link=link, names=known.of(self.names), digests=tuple(words))

    def sums(self, link: Link, known: SameNames) -> SumTable | None:
        """Return the block sums on the host, one transfer a device; None with none."""
        if not self.rows:
            return None
        return SumTable(link=link, names=known.of(self.sum_names), values=_on_host(self.rows))


class SameNames:
    """Gives the same tuple for the same names: the ledger then need not compare them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def of(self, names: list[str]) -> tuple[str, ...]:
        """Return the names as a tuple."""
        if len(self._known) > 64:
            self._known.clear()
        given = tuple(names)
        return self._known.setdefault(given, given)


def _on_host(rows: list[torch.Tensor]) -> Any:
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault((row.device, row.dtype), []).append(index)
    if len(groups) == 1:
        return torch.stack(rows).cpu().numpy()
    wide = any(dtype is torch.float64 for _, dtype in groups)
    found = torch.empty(len(rows), len(rows[0]), dtype=torch.float64 if wide else torch.float32)
    for indices in groups.values():
        found[indices] = torch.stack([rows[i] for i in indices]).cpu().to(found.dtype)
    return found.numpy()
