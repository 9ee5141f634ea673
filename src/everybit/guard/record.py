"""The record: digests of batch, random streams, loss, gradients and weights of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from everybit.core.boundary import Boundary
from everybit.core.link import Link
from everybit.core.observation import TensorTable
from everybit.guard.state import BUFFERS
from everybit.probe.digest import flatten, grid_words, plain_word, readable
from everybit.probe.grid_device import device_digest
from everybit.probe.rng import rng_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.guard.moment import Moment
    from everybit.guard.state import CarriedState

#: Root calls of one step whose inputs are recorded; more are counted and not recorded.
MAX_CALLS = 256


class _Column:
    """Names and digest words gathered for one link; words may still be on an accelerator."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.words: list[int | torch.Tensor] = []

    def add(self, names: Iterable[str], words: Iterable[int | torch.Tensor]) -> None:
        self.names += names
        self.words += words


class RecordCheck:
    """Gather a step's digests; `tables` hands them over at its end.

    Args:
        state: The carried state, whose marks give the digests of the weights.
    """

    def __init__(self, state: CarriedState) -> None:
        self.num_digests = 0
        self.unrecorded: dict[str, str] = {}
        self._state = state
        self._columns: dict[Link, _Column] = {}
        self._losses: list[torch.Tensor] = []

    def __call__(self, boundary: Boundary, moment: Moment) -> None:
        """Take what this boundary offers."""
        if boundary is Boundary.FORWARD_START:
            self._inputs(moment)
        elif boundary is Boundary.BACKWARD_END:
            self._loss(moment)
        elif boundary is Boundary.STEP_START and moment.optimizer is not None:
            self._gradients(moment.optimizer)
        elif boundary is Boundary.STEP_END:
            self._update(moment)

    def tables(self) -> tuple[TensorTable, ...]:
        """Return the step's tables in causal order and begin the next (a sync on accelerators)."""
        columns = sorted(self._columns.items(), key=lambda pair: pair[0].position)
        self._columns = {}
        on_device = [w for _, c in columns for w in c.words if isinstance(w, torch.Tensor)]
        read = iter(_read(on_device))
        tables = []
        for link, column in columns:
            words = [next(read) if isinstance(w, torch.Tensor) else w for w in column.words]
            tables.append(TensorTable(link=link, names=tuple(column.names), digests=tuple(words)))
            self.num_digests += len(words)
        return tuple(tables)

    def losses(self) -> tuple[float, ...]:
        """Return the losses of the step as numbers and begin the next (a sync on accelerators)."""
        losses, self._losses = self._losses, []
        return tuple(_number(loss) for loss in losses)

    def drop(self) -> None:
        """Forget what was gathered: the step is not one that is recorded."""
        self._columns = {}
        self._losses = []

    def initial(self) -> tuple[TensorTable, ...]:
        """Return the digests of all carried state as the run found it."""
        column = _Column()
        for names, words in self._state.tables():
            column.add(names, _as_list(words))
        self._columns = {Link.INIT: column} if column.names else {}
        return self.tables()

    def _column(self, link: Link) -> _Column:
        return self._columns.setdefault(link, _Column())

    def _inputs(self, moment: Moment) -> None:
        if Link.RNG not in self._columns:
            streams = rng_words()
            self._column(Link.RNG).add(streams.keys(), streams.values())
        if moment.call >= MAX_CALLS:
            self.unrecorded["batch"] = f"more than {MAX_CALLS} calls of the model in a step"
            return
        prefix = f"#{moment.call}." if moment.call else ""
        leaves = [*flatten(list(moment.args)), *flatten(dict(moment.kwargs))]
        self._add_values(Link.BATCH, [(prefix + path, value) for path, value in leaves])

    def _loss(self, moment: Moment) -> None:
        first = len(self._losses)
        self._add_values(
            Link.LOSS, [(str(first + i), loss.detach()) for i, loss in enumerate(moment.losses)]
        )
        self._losses += [loss.detach() for loss in moment.losses if loss.numel() == 1]

    def _gradients(self, optimizer: torch.optim.Optimizer) -> None:
        named = []
        for label, tensor in self._state.parameters_of(optimizer):
            gradient = tensor.grad
            if gradient is not None:
                named.append((label, gradient.detach()))
        self._add_values(Link.GRAD, named)

    def _update(self, moment: Moment) -> None:
        groups = [BUFFERS]
        name = self._state.members.name_of(moment.optimizer)
        if name is not None:
            groups.insert(0, name)
        for names, words in self._state.tables(groups):
            self._column(Link.UPDATE).add(names, _as_list(words))

    def _add_values(self, link: Link, values: Sequence[tuple[str, Any]]) -> None:
        column = self._column(link)
        on_cpu = []
        for name, value in values:
            if not isinstance(value, torch.Tensor):
                word = plain_word(value)
                if word is not None:
                    column.add([name], [word])
                elif value is not None:
                    self.unrecorded[f"{link} {name}"] = f"no digest of a {type(value).__name__}"
            elif not readable(value):
                self.unrecorded[f"{link} {name}"] = "no readable bytes"
            elif value.device.type == "cpu":
                on_cpu.append((name, value))
            else:
                column.add([name], [device_digest(value)])
        if on_cpu:
            words = grid_words([value.detach() for _, value in on_cpu])
            column.add([name for name, _ in on_cpu], words.tolist())


def _as_list(words: Any) -> list[int | torch.Tensor]:
    return list(words.unbind()) if isinstance(words, torch.Tensor) else words.tolist()


def _read(words: Sequence[torch.Tensor]) -> list[int]:
    """Copy words to the host in one transfer a device, in order."""
    by_device: dict[torch.device, list[int]] = {}
    for index, word in enumerate(words):
        by_device.setdefault(word.device, []).append(index)
    values = [0] * len(words)
    for indices in by_device.values():
        stacked = torch.stack([words[i] for i in indices]).cpu().numpy().view(np.uint64)
        for index, value in zip(indices, stacked.tolist(), strict=True):
            values[index] = value
    return values


def _number(loss: torch.Tensor) -> float:
    if loss.is_complex():
        return float("nan")
    value = loss.reshape(()) if loss.device.type == "cpu" else loss.cpu().reshape(())
    return float(value.to(torch.float64).numpy())
