"""What one computation of a step went through: sums of every value on its way, in order."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from everybit.core.boundary import Boundary
from everybit.core.grid import ROW_BYTES, GridSums
from everybit.core.link import Link
from everybit.guard.root_call import RootCall, repeating
from everybit.guard.stepping.spans import Spans
from everybit.probe.digest import flatten
from everybit.probe.grid_device import DeviceSums
from everybit.probe.memory import TensorMemory, dtype_name, row_major, why_unreadable
from everybit.probe.state.copies import pieces_of
from everybit.probe.state.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from everybit.guard.moment import Moment

    Bytes = NDArray[np.uint8]

Key = tuple[Link, str, str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A value that a step came to.

    Attributes:
        key: Link, what it is, whose (a module or a parameter), and the how-manieth of these.
        dtype: Canonical dtype name.
        shape: Shape.
        device: `cpu`, `cuda:0`.
        sums: Its bytes where they are few, else their grid sums.
    """

    key: Key
    dtype: str
    shape: tuple[int, ...]
    device: str
    sums: bytes | GridSums | DeviceSums

    def on_host(self) -> bytes | GridSums:
        """Return the sums on the host (a sync where they are on an accelerator)."""
        return self.sums.to_host() if isinstance(self.sums, DeviceSums) else self.sums

    def equals(self, other: Event) -> bool:
        """Whether both values have the same bytes."""
        if (self.dtype, self.shape) != (other.dtype, other.shape):
            return False
        mine, theirs = self.on_host(), other.on_host()
        if isinstance(mine, GridSums) and isinstance(theirs, GridSums):
            return bool(
                np.array_equal(mine.rows, theirs.rows) and np.array_equal(mine.cols, theirs.cols)
            )
        return mine == theirs


class Trace:
    """Hooks every module and parameter for one computation of a step, and takes notes.

    Args:
        roots: Root modules by name, "" for the first.
        fence: Calls a function with arguments; where that fails, the job does not.
        hold: Keys of values of which a copy is kept.

    Attributes:
        events: What came, in order.
        held: Copies of the values asked for: canonical bytes.
        consumers: By the name of an output, the modules that took it, inner ones first.
    """

    def __init__(
        self,
        roots: dict[str, torch.nn.Module],
        fence: Callable[..., Any],
        hold: Collection[Key] = (),
    ) -> None:
        self.events: list[Event] = []
        self.held: dict[Key, Bytes] = {}
        self._roots = roots
        self._fence = fence
        self._hold = hold
        self._counts: dict[tuple[Link, str, str], int] = {}
        self._handles: list[Any] = []
        self._parameters: list[tuple[str, torch.Tensor]] = []
        self._producers: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._spans = Spans()
        self.consumers: dict[str, list[str]] = {}

    def install(self) -> None:
        """Hook. Inside compiled parts nothing is hooked: their results show in what follows."""
        for root, module in self._roots.items():
            if any(_is_compiled(part) for part in module.modules()):
                continue
            for each in walk(module):
                name = f"{root}:{each.name}" if root else each.name
                self._handles += self._spans.around(each.module, name)
                self._handles.append(each.module.register_forward_hook(self._hook(name)))
                for key, parameter in each.parameters.items():
                    if parameter is None or not parameter.requires_grad or not parameter.is_leaf:
                        continue
                    label = f"{name}.{key}" if name else key
                    self._parameters.append((label, parameter))
                    self._hook_gradient(parameter, "gradient", label)

    def remove(self) -> None:
        """Leave everything as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def see(self, boundary: Boundary, moment: Moment) -> None:
        """Take what a boundary offers."""
        if boundary is Boundary.FORWARD_START:
            for path, value in (*flatten(list(moment.args)), *flatten(dict(moment.kwargs))):
                self.note(Link.BATCH, "input", path, value)
        elif boundary is Boundary.BACKWARD_START:
            for index, loss in enumerate(moment.losses):
                self.note(Link.LOSS, "loss", str(index), loss)
            self._fence(self._watch_passing, moment.losses)
        elif boundary is Boundary.STEP_START:
            for label, parameter in self._parameters:
                if parameter.grad is not None:
                    self.note(Link.REDUCE, "gradient", label, parameter.grad)

    def note(self, link: Link, what: str, name: str, value: Any) -> None:
        """Take the sums of a value."""
        if not isinstance(value, torch.Tensor) or repeating(anywhere=True):
            return
        for suffix, piece in pieces_of(value.detach()):
            if why_unreadable(piece):
                continue
            count = self._counts.get((link, what, name + suffix), 0)
            self._counts[link, what, name + suffix] = count + 1
            key = (link, what, name + suffix, count)
            memory = TensorMemory.of(row_major(piece))
            on_host = piece.device.type == "cpu"
            sums: bytes | GridSums | DeviceSums
            if not on_host:
                sums = DeviceSums.of(memory)
            elif memory.num_bytes <= ROW_BYTES:
                sums = memory.copy()
            else:
                sums = GridSums.of(memory.bytes_().data)
            if key in self._hold:
                self.held[key] = memory.bytes_().copy()
            name_, shape = dtype_name(piece.dtype), tuple(piece.shape)
            self.events.append(Event(key, name_, shape, str(piece.device), sums))

    def _watch_passing(self, losses: Sequence[torch.Tensor]) -> None:
        """Note each gradient where one module's backward hands it to what came before."""
        for node, owner, edge in self._spans.leaving(losses):
            self._handles.append(node.register_hook(self._passing(owner, edge)))

    def _passing(self, owner: str, edge: int) -> Callable[[Any, Any], None]:
        def hook(gradients: Any, _: Any) -> None:
            self._fence(self.note, Link.GRAD, "passed", owner, gradients[edge])

        return hook

    def _hook(self, name: str) -> Callable[..., None]:
        def hook(_module: Any, args: Any, output: Any) -> None:
            if torch.compiler.is_compiling() or torch._C._get_tracing_state():
                return
            self._fence(self._follow, name, args, output)
            for path, value in flatten(output):
                whose = f"{name}|{path}" if path else name
                self._fence(self.note, Link.FORWARD, "output", whose, value)
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    self._hook_gradient(value, "output", whose)

        return hook

    def _hook_gradient(self, tensor: Any, what: str, name: str) -> None:
        def hook(gradient: torch.Tensor) -> None:
            self._fence(self.note, Link.GRAD, what, name, gradient)

        handle = tensor.register_hook(hook)
        if what == "gradient":  # That of an output goes with the graph.
            self._handles.append(handle)

    def _follow(self, name: str, args: Any, output: Any) -> None:
        """Note which module took what another one gave: that passes its gradient back."""
        for _, value in flatten(list(args)):
            known = self._producers.get(id(value))
            if known is not None and known[0]() is value:
                self.consumers.setdefault(known[1], []).append(name)
        for path, value in flatten(output):
            if isinstance(value, torch.Tensor):
                whose = f"{name}|{path}" if path else name
                self._producers[id(value)] = (weakref.ref(value), whose)


def _is_compiled(module: torch.nn.Module) -> bool:
    if isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule":
        return True
    place = module.__dict__.get("_compiled_call_impl")
    while isinstance(place, RootCall):
        place = place.inner
    return hasattr(place, "_torchdynamo_orig_callable")


def first_difference(right: Trace, wrong: Trace) -> tuple[Event | None, Event | None]:
    """Return the first value of two traces that differs, as each has it.

    Only what both came to is compared, in the order of `right`; (None, None) where all agrees.
    """
    theirs = {event.key: event for event in wrong.events}
    for event in right.events:
        other = theirs.get(event.key)
        if other is not None and not event.equals(other):
            return event, other
    return None, None
