"""The record: digests of batch, random streams, loss, gradients and weights of a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.boundary import Boundary
from everybit.core.link import Link
from everybit.core.observation import TensorTable
from everybit.guard.by_sample import by_sample
from everybit.guard.check import Check
from everybit.guard.groups import BUFFERS
from everybit.guard.readout import bits_of, number_of, read_words
from everybit.guard.shards import local_of
from everybit.guard.step_calls import MAX_CALLS, StepCalls
from everybit.probe.digest import flatten, grid_words, memory_words, plain_word, readable
from everybit.probe.grid_device import device_digest
from everybit.probe.rng import rng_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.gradients import Gradients
    from everybit.guard.moment import Moment
    from everybit.guard.readout import Readout, Ticket
    from everybit.guard.state import CarriedState

    _Held = tuple[dict[Link, tuple[list[str], list[int | torch.Tensor]]], list[torch.Tensor]]

#: Losses of one step that are recorded: a loop that never steps has no end of them.
MAX_LOSSES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What one step gave.

    Attributes:
        tables: Digests, in causal order.
        losses: What `backward` received, as numbers.
    """

    tables: tuple[TensorTable, ...] = ()
    losses: tuple[float, ...] = ()


class _Column:
    """Names and digest words gathered for one link; words may still be on an accelerator."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.words: list[int | torch.Tensor] = []

    def add(self, names: Iterable[str], words: Iterable[int | torch.Tensor]) -> None:
        self.names += names
        self.words += words


class RecordCheck(Check):
    """Gather a step's digests and losses.

    Args:
        state: The carried state, whose marks give the digests of the weights.
        readout: Brings what is on accelerators to the host at the end of the step.
        gradients: Marks of the gradients, which give their digests where there are any.

    Attributes:
        gathered: What the last finished step gave.
        calls: Calls of the model since the last update.
        num_digests: Digests recorded.
        unrecorded: What has no digest, and why.
    """

    def __init__(
        self, state: CarriedState, readout: Readout, gradients: Gradients | None = None
    ) -> None:
        self.num_digests = 0
        self.unrecorded: dict[str, str] = {}
        self.gathered = Gathered()
        self.calls = StepCalls()
        self._state = state
        self._readout = readout
        self._marked = gradients
        self._columns: dict[Link, _Column] = {}
        self._losses: list[torch.Tensor] = []
        self._asked: Ticket | None = None
        self._held: _Held = ({}, [])

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Take what this boundary offers."""
        if boundary is Boundary.FORWARD_START:
            self._inputs(moment)
        elif boundary is Boundary.FORWARD_END:
            self.calls.returned(moment.outputs)
            if moment.evaluating:
                self._add_values(Link.OUTPUT, by_sample(list(flatten(list(moment.outputs)))))
        elif boundary is Boundary.BACKWARD_END:
            self._loss(moment)
        elif boundary is Boundary.STEP_START and moment.optimizer is not None:
            self._gradients(moment.optimizer)
        elif boundary is Boundary.STEP_END:
            self._update(moment)
            self._take_calls()
            values = [word for column in self._columns.values() for word in column.words]
            values += [0 if loss.is_complex() else bits_of(loss) for loss in self._losses]
            self._asked = self._readout.ask(values)
        return ()

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Take what was read, and begin the next step."""
        columns, self._columns = self._columns, {}
        self.calls.forget()
        losses, self._losses = self._losses, []
        read = iter(self._asked.words if self._asked else ())
        tables = [
            TensorTable(
                link=link,
                names=tuple(column.names),
                digests=tuple(next(read) for _ in column.words),
            )
            for link, column in columns.items()
        ]
        self.num_digests += sum(len(table.names) for table in tables)
        self.gathered = Gathered(
            tables=tuple(sorted(tables, key=lambda table: table.link.position)),
            losses=tuple(_number(next(read), loss) for loss in losses),
        )
        return ()

    def hold(self) -> None:
        """Keep what the step has given so far: of a step in several calls, say."""
        columns = {link: (list(c.names), list(c.words)) for link, c in self._columns.items()}
        self._held = (columns, list(self._losses))
        self.calls.hold()

    def put_back(self) -> None:
        """Forget what came since."""
        columns, losses = self._held
        self._columns = {}
        for link, (names, words) in columns.items():
            self._column(link).add(names, words)
        self._losses = list(losses)
        self.calls.put_back()

    def initial(self) -> tuple[TensorTable, ...]:
        """Return the digests of all carried state as the run found it."""
        column = _Column()
        for names, words in self._state.tables():
            column.add(names, _as_list(words))
        if not column.names:
            return ()
        found = tuple(read_words(column.words))
        self.num_digests += len(found)
        return (TensorTable(link=Link.INIT, names=tuple(column.names), digests=found),)

    def _column(self, link: Link) -> _Column:
        return self._columns.setdefault(link, _Column())

    def _inputs(self, moment: Moment) -> None:
        if not (moment.differentiable or moment.evaluating):
            return  # Evaluation between updates is no part of the step.
        call = self.calls.begin(moment)
        if self.calls.wants_streams():
            call.streams = dict(rng_words())
        if not call.digested:
            return
        column = _Column()
        leaves = [*flatten(list(moment.args)), *flatten(dict(moment.kwargs))]
        self._add_values(Link.BATCH, leaves, column=column)
        call.names, call.words = column.names, column.words

    def _take_calls(self) -> None:
        """Take the inputs of the calls that belong to the step, which is known now."""
        kept = self.calls.belonging()
        if not all(call.digested for call in kept):
            self.unrecorded["batch"] = f"more than {MAX_CALLS} calls of the model in a step"
        streams = self.calls.streams()
        if streams:
            self._column(Link.RNG).add(streams.keys(), streams.values())
        for number, call in enumerate(kept):
            prefix = f"#{number}." if number else ""
            self._column(Link.BATCH).add([prefix + name for name in call.names], call.words)

    def _loss(self, moment: Moment) -> None:
        first = len(self._losses)
        if first >= MAX_LOSSES:
            self.unrecorded["loss"] = f"more than {MAX_LOSSES} backward passes in a step"
            return
        self._add_values(
            Link.LOSS, [(str(first + i), loss.detach()) for i, loss in enumerate(moment.losses)]
        )
        self._losses += [loss.detach() for loss in moment.losses if loss.numel() == 1]

    def _gradients(self, optimizer: torch.optim.Optimizer) -> None:
        known = self._marked.words(optimizer) if self._marked is not None else {}
        column = self._column(Link.GRAD)
        rest = []
        for label, tensor in self._state.parameters_of(optimizer):
            gradient = tensor.grad
            if id(tensor) in known:
                column.add([label], [known[id(tensor)]])
            elif gradient is not None:
                rest.append((label, gradient.detach()))
        # Gradients never agree between kinds of devices: the cheaper digest will do on the CPU.
        self._add_values(Link.GRAD, rest, memory_words)

    def _update(self, moment: Moment) -> None:
        if moment.evaluating:
            return  # Nothing was updated.
        groups = [BUFFERS]
        name = self._state.members.name_of(moment.optimizer)
        if name is not None:
            groups.insert(0, name)
        for names, words in self._state.tables(groups):
            self._column(Link.UPDATE).add(names, _as_list(words))

    def _add_values(
        self,
        link: Link,
        values: Sequence[tuple[str, Any]],
        words_of: Callable[[list[torch.Tensor]], Iterable[int]] = grid_words,
        *,
        column: _Column | None = None,
    ) -> None:
        column = self._column(link) if column is None else column
        on_cpu = []
        for name, value in values:
            if not isinstance(value, torch.Tensor):
                word = plain_word(value)
                if word is not None:
                    column.add([name], [word])
                elif value is not None:
                    self.unrecorded[f"{link} {name}"] = f"no digest of a {type(value).__name__}"
            elif not readable(value := local_of(value)):
                self.unrecorded[f"{link} {name}"] = "no readable bytes"
            elif value.device.type == "cpu":
                on_cpu.append((name, value))
            else:
                column.add([name], [device_digest(value)])
        if on_cpu:
            words = words_of([value.detach() for _, value in on_cpu])
            column.add([name for name, _ in on_cpu], map(int, words))


def _as_list(words: Any) -> list[int | torch.Tensor]:
    return list(words.unbind()) if isinstance(words, torch.Tensor) else words.tolist()


def _number(word: int, loss: torch.Tensor) -> float:
    return math.nan if loss.is_complex() else number_of(word, wide=loss.device.type == "cpu")
