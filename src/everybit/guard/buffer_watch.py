"""The float buffers that a step changes, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from everybit.core.numbers import BufferNumbers
from everybit.probe.memory import version
from everybit.probe.numerics import Reading, count_bad, plain_values, read_each, read_norms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_KINDS = {"running_mean": "mean", "running_var": "variance"}
#: Larger ones are no statistics: they are looked at where their version counter moved only.
_MAX_ELEMENTS = 1 << 20


@dataclass(slots=True, eq=False)
class _Known:
    kind: str
    was_finite: bool
    version: int


class BufferWatch:
    """Measure buffers; statistics of normalisation layers at every step, others once written."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._asked: list[tuple[str, torch.Tensor, _Known]] = []
        self._norms = Reading([])
        self._lowest = Reading([])
        self._variances: list[int] = []

    def meet(self, buffers: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Look at buffers that are new: what they hold at the start is taken as it is."""
        for label, tensor in buffers:
            if label not in self._known and plain_values(tensor) is not None:
                kind = _KINDS.get(label.rpartition(".")[2], "other")
                self._known[label] = _Known(kind, count_bad(tensor)[0] == 0, version(tensor))

    def finite_at_start(
        self, buffers: Iterable[tuple[str, torch.Tensor]]
    ) -> list[tuple[str, torch.Tensor]]:
        """Return the buffers that were finite when they were met."""
        return [
            (label, tensor)
            for label, tensor in buffers
            if label in self._known and self._known[label].was_finite
        ]

    def measure(self, buffers: Iterable[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
        """Measure the buffers after a step; returns the words wanted from the readout."""
        self._asked = []
        for label, tensor in buffers:
            known = self._known.get(label)
            if known is None or plain_values(tensor) is None:
                continue
            moved = version(tensor) != known.version
            known.version = version(tensor)
            if known.kind != "other" or (moved and tensor.numel() <= _MAX_ELEMENTS):
                self._asked.append((label, tensor, known))
        self._norms = read_norms([tensor for _, tensor, _ in self._asked], 0.0)
        self._variances = [
            place
            for place, (_, tensor, known) in enumerate(self._asked)
            if known.kind == "variance" and tensor.numel()
        ]
        self._lowest = self._read_lowest()
        return [*self._norms.words_wanted, *self._lowest.words_wanted]

    def finish(self, words: Sequence[int]) -> tuple[BufferNumbers, ...]:
        """Return the numbers, with what the readout brought."""
        split = len(self._norms.words_wanted)
        norms = self._norms.fill(words[:split])
        negative = any(lowest < 0 for lowest in self._lowest.fill(words[split:]))
        variances = set(self._variances)
        found = []
        for place, (label, tensor, known) in enumerate(self._asked):
            norm = norms[place]
            finite = norm - norm == 0.0 or _is_fine(tensor, known)
            below = negative and place in variances and bool((tensor < 0).any())
            found.append(
                BufferNumbers(
                    name=label,
                    kind=known.kind,
                    norm=norm,
                    size=tensor.numel(),
                    negative=below,
                    finite=finite,
                    was_finite=known.was_finite,
                )
            )
        self._asked = []
        return tuple(found)

    def _read_lowest(self) -> Reading:
        """Measure the lowest of all variances, one number a device."""
        by_device: dict[torch.device, list[torch.Tensor]] = {}
        for place in self._variances:
            tensor = self._asked[place][1].detach()
            by_device.setdefault(tensor.device, []).append(tensor.reshape(-1).float())
        joined = [torch.cat(tensors) for tensors in by_device.values()]
        return read_each(joined, torch.amin)


def _is_fine(tensor: torch.Tensor, known: _Known) -> bool:
    """Whether a buffer whose norm is not finite is fine: the norm overflowed, or it is a limit."""
    num_bad, value, _ = count_bad(tensor)
    if known.kind == "other" and num_bad and value != "nan":
        return not bool(torch.isnan(tensor).any())  # A mask, or a bound that nothing has met yet.
    return num_bad == 0
