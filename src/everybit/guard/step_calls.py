"""Which calls of the model belong to a step: validation with gradients enabled does not.

A program that validates between two updates and leaves out `torch.no_grad` calls its model in eval
mode with gradients wanted, and so does one whose loss compares what the model gives in both modes.
No gradient ever comes back to the first: that is what tells them apart, and it is known only when
the step ends.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from everybit.probe.digest import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.guard.moment import Moment
    from everybit.guard.readout import Word

#: Calls of one step in each mode whose inputs are digested, and calls in eval mode that are traced
#: while no gradient has come back to one: a pass over validation data goes on for longer.
MAX_CALLS = 256
MAX_TRACED = 64
#: Tensors of an answer to whose gradients is listened.
_MAX_LEAVES = 64


@dataclass(slots=True, kw_only=True, eq=False)
class StepCall:
    """One call of a root module.

    Attributes:
        root: Identity of the module.
        training: It was called in training mode, or is a step of its own.
        digested: Its inputs are on record.
        names: Paths of its inputs.
        words: Their digests.
        streams: Digests of the random streams before it; empty where they were not read.
        reached: A gradient came back to what it returned.
        before: Calls of each traced module in the step before it (calls in eval mode only).
        after: The same, after it.
    """

    root: int
    training: bool
    digested: bool = True
    names: list[str] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    streams: Mapping[str, Word] = field(default_factory=dict)
    reached: bool = False
    before: Mapping[str, int] | None = None
    after: Mapping[str, int] | None = None

    def reach(self, *_: Any) -> None:
        """Be told that a gradient comes back."""
        self.reached = True


class StepCalls:
    """The root calls of one step, in order."""

    def __init__(self) -> None:
        self._calls: list[StepCall] = []
        self._open: dict[int, StepCall] = {}
        self._counts = {True: 0, False: 0}
        self._held: tuple[list[StepCall], dict[bool, int]] = ([], {True: 0, False: 0})

    @property
    def current(self) -> StepCall | None:
        """The call under way in this thread; None with none, or of one without gradients."""
        return self._open.get(threading.get_ident())

    def begin(self, moment: Moment) -> StepCall:
        """Begin a call."""
        root = moment.root
        training = moment.evaluating or root is None or root.training
        digested = self._counts[training] < MAX_CALLS
        self._counts[training] += 1
        call = StepCall(root=id(root), training=training, digested=digested)
        self._calls.append(call)
        self._open[threading.get_ident()] = call
        return call

    def wants_streams(self) -> bool:
        """Whether the random streams are to be read before the call that has begun.

        One of those before which they are begins the step: the first, the first in training mode,
        or one in eval mode while no gradient has come back to any before it.
        """
        *before, last = self._calls
        if last.training:
            return not before or self._counts[True] == 1
        return last.digested and not any(call.training or call.reached for call in before)

    def is_traced(self, call: StepCall) -> bool:
        """Whether what happens within a call is traced: not all of a pass over other data."""
        if call.training or self._counts[False] <= MAX_TRACED:
            return True
        return any(each.reached for each in self._calls)

    def returned(self, outputs: tuple[Any, ...]) -> None:
        """Take what a call returned: nothing where an error ended it."""
        call = self._open.pop(threading.get_ident(), None)
        if call is None or call.training:
            return
        leaves = [leaf for _, leaf in flatten(list(outputs)) if isinstance(leaf, torch.Tensor)]
        for leaf in leaves[:_MAX_LEAVES]:
            if leaf.grad_fn is not None:
                leaf.grad_fn.register_prehook(call.reach)

    def belonging(self) -> Sequence[StepCall]:
        """Return the calls that the step is made of.

        All of a root's, where none was in training mode and no gradient came back to any.
        """
        chosen = {call.root for call in self._calls if call.training or call.reached}
        return [
            call for call in self._calls if call.training or call.reached or call.root not in chosen
        ]

    def beside(self) -> Sequence[StepCall]:
        """Return the others."""
        kept = set(map(id, self.belonging()))
        return [call for call in self._calls if id(call) not in kept]

    def streams(self) -> Mapping[str, Word]:
        """Return the random streams as the step began; empty where no call was kept."""
        kept = self.belonging()
        told = [call.streams for call in (*kept[:1], *self._calls[:1]) if call.streams]
        return told[0] if told else {}

    def forget(self) -> None:
        """Begin a step."""
        self._calls, self._counts = [], {True: 0, False: 0}

    def hold(self) -> None:
        """Keep the calls so far."""
        self._held = (list(self._calls), dict(self._counts))

    def put_back(self) -> None:
        """Forget those that came since."""
        self._calls, self._counts = list(self._held[0]), dict(self._held[1])
        self._open.clear()
