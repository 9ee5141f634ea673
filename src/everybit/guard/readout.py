"""The readout: all values of a step that are on accelerators come to the host in one transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    Word = int | torch.Tensor


class Ticket:
    """Values that were asked for.

    Attributes:
        words: Their 64 bits as unsigned integers, in order; there once they have been read.
    """

    def __init__(self, values: Sequence[Word]) -> None:
        self.values = list(values)
        self.words: list[int] = []


class Readout:
    """Collects what the checks of a step want to know of the devices."""

    def __init__(self) -> None:
        self._tickets: list[Ticket] = []

    def ask(self, values: Sequence[Word]) -> Ticket:
        """Ask for values: integers, or 0-d int64 tensors (bit patterns); no sync."""
        ticket = Ticket(values)
        self._tickets.append(ticket)
        return ticket

    def read(self) -> None:
        """Fill all tickets; one sync for each accelerator that holds a value."""
        tickets, self._tickets = self._tickets, []
        words = iter(read_words([value for ticket in tickets for value in ticket.values]))
        for ticket in tickets:
            ticket.words = [next(words) for _ in ticket.values]
            ticket.values = []


def read_words(values: Sequence[Word]) -> list[int]:
    """Return 64-bit words as unsigned integers, in order, with one transfer a device.

    Args:
        values: Integers, or 0-d int64 tensors (bit patterns).
    """
    by_device: dict[torch.device, list[int]] = {}
    read = [0 if isinstance(value, torch.Tensor) else value for value in values]
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            by_device.setdefault(value.device, []).append(index)
    for indices in by_device.values():
        stacked = torch.stack([values[i] for i in indices]).cpu()  # type: ignore[misc]
        for index, word in zip(indices, stacked.numpy().view(np.uint64).tolist(), strict=True):
            read[index] = word
    return read


def bits_of(number: torch.Tensor) -> Word:
    """Return the bits of a real number as float64 on the CPU, elsewhere as float32.

    Args:
        number: One element, real, of any dtype.
    """
    if number.device.type == "cpu":
        return int(number.reshape(()).to(torch.float64).view(torch.int64).numpy()) % (1 << 64)
    # Some accelerators have no float64.
    return number.reshape(()).to(torch.float32).view(torch.int32).to(torch.int64)


def number_of(word: int, *, wide: bool) -> float:
    """Return the number whose bits `bits_of` gave.

    Args:
        word: As read.
        wide: The number was on the CPU.
    """
    if wide:
        return float(np.uint64(word).view(np.float64))
    return float(np.uint32(word % (1 << 32)).view(np.float32))
