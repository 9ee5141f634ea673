"""The tracer: takes what calls give as they end, and their gradients as they come back."""

from __future__ import annotations

import threading
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.trace_name import (
    TraceKind,
    TraceName,
    forward_name,
    output_gradient_name,
)
from everybit.guard.replay.values import leaves
from everybit.guard.root_call import repeating
from everybit.guard.trace.columns import Column
from everybit.guard.trace.words import Words, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.guard.trace.words import Seen

#: Values traced in one step; more are counted, and not recorded.
MAX_VALUES = 65_536

_forward_name = lru_cache(maxsize=65_536)(forward_name)
_gradient_name = lru_cache(maxsize=65_536)(output_gradient_name)


class Tracer:
    """What the parts of a model give in a step, and the gradients of that.

    Args:
        fence: Calls a function with arguments; where that fails, the job does not.
        wants_sums: Whether block sums of a name are asked for at every traced step.

    Attributes:
        armed: Calls are traced: the step is one that is checked.
        summing: Block sums of everything are taken in this step.
        by_operation: Operations are traced too: which call is under way is of interest.
        forward: Outputs of calls, in the order in which they ended.
        backward: Gradients of these, in the order in which they were computed.
        skipped: What was not traced: how often, by reason.
        words: Takes the digests.
    """

    def __init__(
        self, fence: Callable[..., Any], wants_sums: Callable[[str], bool] = lambda _: False
    ) -> None:
        self.armed = False
        self.summing = False
        self.by_operation = False
        self.forward = Column()
        self.backward = Column()
        self.skipped: Counter[str] = Counter()
        self.words = Words()
        self._fence = fence
        self._wants_sums = wants_sums
        self._calls: Counter[str] = Counter()
        self._passes: Counter[tuple[str, int, str]] = Counter()
        self._recomputed: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._inside = False
        self._muted = False
        self._open: list[tuple[str, int, int]] = []
        self._spans: list[tuple[int, int, str, int]] = []
        self._thread = 0

    def forget(self) -> None:
        """Begin a step."""
        self.forward, self.backward = Column(), Column()
        self._calls.clear()
        self._passes.clear()
        self._recomputed.clear()
        self._open, self._spans = [], []
        self.words.forget()

    def held(self) -> Any:
        """Return what was traced of the step so far."""
        counters = (self._calls.copy(), self._passes.copy(), self._recomputed.copy())
        return self.forward.copy(), self.backward.copy(), counters

    def put_back(self, held: Any) -> None:
        """Trace from there on."""
        forward, backward, counters = held
        self.forward, self.backward = forward.copy(), backward.copy()
        self._calls, self._passes, self._recomputed = (each.copy() for each in counters)
        self.words.forget()

    def counts(self) -> dict[str, int]:
        """Return how often each module was called in the step so far."""
        return dict(self._calls)

    def enter_root(self, path: str | None, *, counts: bool) -> None:
        """Be told that a root is called.

        Args:
            path: Its path, None for a part that is called by itself.
            counts: The call belongs to the step; else nothing within it is traced.
        """
        self._thread = threading.get_ident()
        self._inside = counts
        self._muted = not counts
        if counts and path is not None:
            self._open_call(path, self._number(path))

    def leave_root(self, path: str | None, returned: tuple[Any, ...]) -> None:
        """Take what a root gave: nothing where an error ended its call. Called within the fence."""
        if self._inside and path is not None:
            call = self._calls[path] - 1
            self._close_call(path)
            if returned:
                self._take(path, call, returned[0], counts=True)
        self._inside = self._muted = False

    def begin(self, path: str) -> int:
        """Begin the call of a part; returns its number, -1 where it is not traced."""
        why = self._why_not()
        if why is not None:
            if why:
                self.skipped[why] += 1
            return -1
        if torch._C._current_autograd_node() is not None:
            return self._recompute(path)
        call = self._number(path)
        self._open_call(path, call)
        return call

    def end(self, path: str, call: int, returned: tuple[Any, ...]) -> None:
        """Take what a call gave."""
        counts = torch._C._current_autograd_node() is None
        if counts:
            self._close_call(path)
        if returned:
            self._fence(self._take, path, call, returned[0], counts)

    def operation(self, name: str, number: int, result: Any) -> None:
        """Take what an operation gave.

        Args:
            name: The operation.
            number: Autograd's number of the node in whose backward it is, -1 in a forward.
            result: A tensor, or a nest of some.
        """
        if not self._muted and (number >= 0 or self._inside) and not self._is_full():
            self._fence(self._operation, name, number, result)

    def _operation(self, name: str, number: int, result: Any) -> None:
        backward = number >= 0
        path, call = self._owner(number) if backward else self._current()
        key = (path, call, f"{name}{number >= 0}")
        count = self._passes[key]
        self._passes[key] = count + 1
        kind = TraceKind.GRADIENT if backward else TraceKind.OUTPUT
        column = self.backward if backward else self.forward
        for leaf, value in leaves(result):
            if isinstance(value, torch.Tensor):
                seen = self.words.look(value)
                if seen.word is not None:
                    told = TraceName(
                        kind=kind, module=path, call=call, leaf=leaf, op=name, number=count
                    )
                    column.add(str(told), seen.word)

    def _number(self, path: str) -> int:
        call = self._calls[path]
        self._calls[path] = call + 1
        return call

    def _open_call(self, path: str, call: int) -> None:
        if self.by_operation:
            self._open.append((path, call, torch._C._autograd._get_sequence_nr()))

    def _close_call(self, path: str) -> None:
        while self.by_operation and self._open:
            opened, call, start = self._open.pop()
            if opened == path:
                end = torch._C._autograd._get_sequence_nr()
                self._spans.append((start, end, path, call))
                break

    def _current(self) -> tuple[str, int]:
        """Return the innermost call under way."""
        return self._open[-1][:2] if self._open else ("", 0)

    def _owner(self, number: int) -> tuple[str, int]:
        """Return the innermost call that recorded a node of the graph."""
        best, found = -1, ("", 0)
        for start, end, path, call in self._spans:
            if start <= number < end and (best < 0 or end - start < best):
                best, found = end - start, (path, call)
        return found

    def _is_full(self) -> bool:
        return len(self.forward.names) + len(self.backward.names) >= MAX_VALUES

    def _why_not(self) -> str | None:
        """Return why a call that begins is not traced, "" where that need not be told."""
        if self._muted or not (self._inside or torch.is_grad_enabled()):
            return ""  # Evaluation between updates is no part of the step.
        if torch._C._functorch.maybe_current_level() is not None:
            return "within a transform of torch.func"
        if (
            self._inside
            and threading.get_ident() != self._thread
            and torch._C._current_autograd_node() is None
        ):
            return "in another thread than the call of the model"
        if self._is_full():
            return f"more than {MAX_VALUES} values in a step"
        return None

    def _recompute(self, path: str) -> int:
        """Number a call within a backward pass: activation checkpointing computes once more.

        What it gives is on record already, but where the first call recorded no graph the gradients
        come to this one.
        """
        number = self._recomputed[path]
        self._recomputed[path] = number + 1
        return number

    def _take(self, path: str, call: int, output: Any, counts: bool) -> None:
        with self._lock:
            if isinstance(output, torch.Tensor):
                self._output(path, call, "", output, counts)
                return
            for leaf, value in leaves(output):
                if isinstance(value, torch.Tensor):
                    self._output(path, call, leaf, value, counts)

    def _output(self, path: str, call: int, leaf: str, tensor: torch.Tensor, counts: bool) -> None:
        if counts:
            seen = self.words.look(tensor)
            if seen.word is None:
                self.skipped["its bytes cannot be read"] += 1
            else:
                name = _forward_name(path, call, leaf)
                self.forward.add(name, seen.word)
                if self.summing or self._wants_sums(name):
                    self._sum(self.forward, name, seen, tensor)
            names = seen.names
        else:
            names = []
        node = tensor.grad_fn if tensor.requires_grad else None
        if node is not None:
            names.append((path, call, leaf))
            if len(names) == 1:
                node.register_prehook(_Catcher(self, names, tensor.output_nr))

    def _sum(self, column: Column, name: str, seen: Seen, tensor: torch.Tensor) -> None:
        row = row_of(tensor, seen)
        if row is not None:
            column.add_sums(name, row)

    def came(self, names: Sequence[tuple[str, int, str]], gradient: torch.Tensor | None) -> None:
        """Take the gradient of an output, which has several names where several calls gave it."""
        if gradient is None:
            return
        with self._lock:
            seen = self.words.look(gradient)
            if seen.word is None:
                self.skipped["its gradient's bytes cannot be read"] += 1
                return
            for key in reversed(names):
                again = self._passes[key]
                self._passes[key] = again + 1
                path, call, leaf = key
                name = _gradient_name(path, call, leaf, again)
                self.backward.add(name, seen.word)
                if self.summing or self._wants_sums(name):
                    self._sum(self.backward, name, seen, gradient)

    def fenced(self, names: Sequence[tuple[str, int, str]], gradient: Any) -> None:
        """Do the same from a hook of autograd."""
        if not self.armed or repeating(anywhere=True):
            return
        if self._is_full():
            self.skipped[f"more than {MAX_VALUES} values in a step"] += 1
            return
        self._fence(self.came, names, gradient)


class _Catcher:
    """Stands before a node of the graph and shows the gradient of one of its outputs."""

    __slots__ = ("_names", "_number", "_tracer")

    def __init__(self, tracer: Tracer, names: list[tuple[str, int, str]], number: int) -> None:
        self._tracer = tracer
        self._names = names
        self._number = number

    def __call__(self, gradients: Any) -> None:
        self._tracer.fenced(self._names, gradients[self._number])
