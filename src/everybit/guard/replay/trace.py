"""What each part of a model takes and gives during one call, as digests, in order of execution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.guard.replay.values import tensors_in, word_of
from everybit.guard.root_call import RootCall
from everybit.guard.uncompiled import anything_is_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.guard.readout import Word

#: Outputs of parts that are held on to until the call has been repeated, so that differing
#: elements can be told; what autograd keeps of them anyway costs nothing.
MAX_HELD_BYTES: Final = 256 << 20


@dataclass(slots=True, eq=False)
class Event:
    """Tensors going into a part, or coming out of it.

    Attributes:
        name: Qualified name of the part, "" for the module that is called itself.
        comes_out: Whether they come out.
        words: A digest word of each; None of one without readable bytes.
        tensors: Themselves, detached, as far as they are held; with their version counters.
    """

    name: str
    comes_out: bool
    words: list[Word | None]
    tensors: list[tuple[torch.Tensor, int]]


class Trace:
    """Hooks on the parts of a module for the time of one call.

    Args:
        module: The module that is called; it is not hooked itself.
        failed: Called with an error of our own; the call goes on.

    Attributes:
        events: What was seen.
    """

    def __init__(self, module: torch.nn.Module, failed: Callable[[Exception], None]) -> None:
        self.events: list[Event] = []
        self._failed = failed
        self._left = MAX_HELD_BYTES
        self._known: dict[tuple[Any, ...], tuple[Word | None, torch.Tensor, int]] = {}
        self._handles: list[Any] = []
        self._open: list[tuple[str, int]] = []
        self._spans: list[tuple[int, int, str]] = []
        if not anything_is_compiled():
            for name, part in _parts_of(module):
                self._hook(name, part)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._open = []
        self._known = {}

    @property
    def current(self) -> str:
        """The part that is being called."""
        return self._open[-1][0] if self._open else ""

    def owner(self, number: int) -> str:
        """Return the innermost part that recorded an autograd node, by its sequence number."""
        best, found = None, ""
        for start, end, name in self._spans:
            if start <= number < end and (best is None or end - start <= best):
                best, found = end - start, name
        return found

    def _hook(self, name: str, part: torch.nn.Module) -> None:
        def before(_part: Any, args: Any, kwargs: Any) -> None:
            try:
                self._begin(name, args, kwargs)
            except Exception as error:
                self._failed(error)

        def after(_part: Any, _args: Any, _kwargs: Any, output: Any) -> None:
            try:
                self._end(name, output)
            except Exception as error:
                self._failed(error)

        self._handles += [
            part.register_forward_pre_hook(before, with_kwargs=True),
            part.register_forward_hook(after, with_kwargs=True),
        ]

    def _begin(self, name: str, args: Any, kwargs: Any) -> None:
        self._add(name, (args, kwargs), comes_out=False)
        self._open.append((name, torch._C._autograd._get_sequence_nr()))

    def _end(self, name: str, output: Any) -> None:
        while self._open:
            opened, start = self._open.pop()
            if opened == name:
                self._spans.append((start, torch._C._autograd._get_sequence_nr(), name))
                break
        self._add(name, output, comes_out=True)

    def _add(self, name: str, value: Any, *, comes_out: bool) -> None:
        with torch.no_grad(), torch._C.DisableTorchFunction():
            tensors = [tensor.detach() for _, tensor in tensors_in(value)]
            looks = [self._look(tensor) for tensor in tensors]
        words = [word for word, _ in looks]
        held = [kept for _, kept in looks if kept is not None] if comes_out else []
        self.events.append(Event(name, comes_out, words, held if len(held) == len(words) else []))

    def _look(self, tensor: torch.Tensor) -> tuple[Word | None, tuple[torch.Tensor, int] | None]:
        """Return a tensor's digest word, and itself where it is held; one held is known."""
        if tensor.is_inference() or tensor.layout is not torch.strided:
            return word_of(tensor), None
        key = tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()
        known = self._known.get(key)
        if known is not None and known[2] == tensor._version and known[1]._version == known[2]:
            return known[0], known[1:]
        word = word_of(tensor)
        self._left -= tensor.numel() * tensor.element_size()
        if self._left < 0:
            return word, None
        self._known[key] = word, tensor, tensor._version
        return word, (tensor, tensor._version)


def _parts_of(module: torch.nn.Module, prefix: str = "") -> list[tuple[str, torch.nn.Module]]:
    """Return the parts of a module by name, but for what is compiled or scripted."""
    found: dict[int, tuple[str, torch.nn.Module]] = {}
    stack = [(prefix, module)]
    while stack:
        name, part = stack.pop()
        if id(part) in found or _is_closed(part):
            continue
        found[id(part)] = (name, part)
        inner = [
            (f"{name}.{key}" if name else key, child)
            for key, child in part._modules.items()
            if child is not None
        ]
        stack += reversed(inner)
    return [pair for pair in found.values() if pair[1] is not module]


def _is_closed(part: torch.nn.Module) -> bool:
    compiled = part.__dict__.get("_compiled_call_impl")
    if compiled is not None and not isinstance(compiled, RootCall):
        return True
    return isinstance(part, torch.jit.ScriptModule) or type(part).__name__ == "OptimizedModule"
