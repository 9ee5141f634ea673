"""Digest words of values that were just computed; one that was just seen is not read again."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.guard.shards import local_of
from everybit.probe.block_sums import block_sums, has_sums
from everybit.probe.digest import memory_words, readable
from everybit.probe.grid_device import device_digest
from everybit.probe.memory import version
from everybit.probe.quick_word import is_plain, word_in_place

if TYPE_CHECKING:
    import torch

    from everybit.guard.readout import Word


@dataclass(slots=True, eq=False)
class Seen:
    """A tensor whose digest was taken.

    Attributes:
        reference: The tensor, which is not kept alive.
        version: Its version counter then.
        word: Its digest word, None where it has no readable bytes.
        row: Its block sums, where they were taken.
        names: What is to be told of its gradient: `(module, call, leaf)`.
    """

    reference: weakref.ref[torch.Tensor]
    version: int
    word: Word | None
    row: torch.Tensor | None = None
    names: list[tuple[str, int, str]] = field(default_factory=list)


class Words:
    """Takes digest words, and remembers the tensors while they live.

    A module mostly gives what its last part gave, and a gradient goes through an addition as it is:
    the same tensor comes several times in a row.

    Attributes:
        num_read: Tensors read.
        num_known: Tensors that came again.
    """

    def __init__(self) -> None:
        self.num_read = 0
        self.num_known = 0
        self._seen: dict[int, Seen] = {}

    def forget(self) -> None:
        """Begin anew."""
        self._seen.clear()

    def look(self, tensor: torch.Tensor) -> Seen:
        """Return what is known of a tensor's bytes as they are."""
        number = version(tensor)
        known = self._seen.get(id(tensor))
        if known is not None and known.version == number and known.reference() is tensor:
            self.num_known += 1
            return known
        self.num_read += 1
        seen = Seen(weakref.ref(tensor), number, _word_of(tensor))
        self._seen[id(tensor)] = seen
        return seen


def row_of(tensor: torch.Tensor, seen: Seen | None = None) -> torch.Tensor | None:
    """Return a tensor's block sums, None where it has none; what was seen has them once."""
    if seen is not None and seen.row is not None:
        return seen.row
    local = local_of(tensor)
    if not has_sums(local) or not readable(local):
        return None
    row = block_sums(local)
    if seen is not None:
        seen.row = row
    return row


def _word_of(tensor: torch.Tensor) -> Word | None:
    if is_plain(tensor) and not tensor.is_neg():
        return word_in_place(tensor if tensor.is_contiguous() else tensor.detach().contiguous())
    tensor = local_of(tensor).detach()
    if not readable(tensor):
        return None
    return memory_words([tensor])[0] if tensor.device.type == "cpu" else device_digest(tensor)
