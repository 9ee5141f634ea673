"""Take note of every operation of a step: a dispatch mode, and the modules around it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import torch
import xxhash
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_flatten

from everybit.guard.magnify.event import Event
from everybit.guard.magnify.held import Held
from everybit.guard.replay.values import word_of
from everybit.probe.digest import flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: More operations of one step are not noted.
MAX_EVENTS: Final = 200_000
#: They give memory as it was found, or the same values in other memory.
_BLANK: Final = ("empty", "resize_")
_PASSING: Final = (*_BLANK, "aten.clone.", "lift_fresh")
_SEEDED: Final = torch.Tag.nondeterministic_seeded


class Recorder:
    """Notes the operations of a step from `start` on.

    Args:
        named: Parameters, buffers and optimizer state by name.
        modules: The modules by name.
        hold: The number of the event whose inputs and outputs are kept; none where negative.
        operations: Note operations; else outputs of modules alone, which is all that can be seen
            where anything is compiled.

    Attributes:
        events: What was noted, in order.
        held: What the event `hold` read and gave.
        phase: Of what comes next.
        lost: Events past the most that are noted.
    """

    def __init__(
        self,
        named: Callable[[], Iterable[tuple[str, torch.Tensor]]],
        modules: Callable[[], Iterable[tuple[str, torch.nn.Module]]],
        *,
        hold: int = -1,
        operations: bool = True,
    ) -> None:
        self.events: list[Event] = []
        self.held: Held | None = None
        self.phase = ""
        self.lost = 0
        self._hold = hold
        self._named = named
        self._modules = modules
        self._mode = _Mode(self) if operations else None
        self._names: dict[int, str] = {}
        self._module_names: dict[int, str] = {}
        self._made: dict[int, int] = {}
        self._blank: set[int] = set()
        self._open: list[tuple[str, int]] = []
        self._spans: list[tuple[int, int, str]] = []
        self._hooks: list[Any] = []

    def start(self) -> None:
        """Begin: what is there now is what the step begins with."""
        self.look()
        self._hooks = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        if self._mode is not None:
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def look(self) -> None:
        """Take the names of tensors and modules as they are now."""
        self._names = {_memory(tensor): name for name, tensor in self._named()}
        self._names.pop(0, None)
        self._module_names = {id(module): name for name, module in self._modules()}

    def stop(self) -> None:
        """End. Where another mode lies above it the mode stays, and passes everything on."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._mode is not None:
            self._mode.active = False
            if _get_current_dispatch_mode() is self._mode:
                self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    @property
    def notes_operations(self) -> bool:
        """Whether operations are noted, and not values of modules alone."""
        return self._mode is not None

    def operation(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Carry out an operation and note it."""
        leaves, _ = tree_flatten((args, kwargs))
        tensors = _tensors(leaves)
        if _computes_nothing(func):
            result = func(*args, **kwargs)
            self._take_as_made(result, tensors, self._origin(tensors))
            if any(part in str(func) for part in _BLANK):
                self._blank |= {_memory(tensor) for tensor in _tensors(result)}
            return result
        number = len(self.events)
        if number >= MAX_EVENTS:
            self.lost += 1
            return func(*args, **kwargs)
        event = Event(op=str(func), phase=self._phase(), module=self._module())
        event.plain = ", ".join(_plain(leaf) for leaf in leaves if not _is_tensor(leaf))
        # What is written first, a dropout mask say, is as it was found until then.
        event.reads = [0 if _memory(t) in self._blank else _word(t) for t in tensors]
        for place, tensor in enumerate(tensors):
            memory = _memory(tensor)
            if memory in self._names:
                event.names[place] = self._names[memory]
            if memory in self._made:
                event.made[place] = self._made[memory]
        if _SEEDED in func.tags:
            event.draws = _random_word()
        held = Held.before(func, args, kwargs) if number == self._hold else None
        self.events.append(event)
        result = func(*args, **kwargs)
        given = _tensors(result)
        event.gives = [_word(tensor) for tensor in given]
        event.shapes = [f"{tensor.dtype} {list(tensor.shape)}" for tensor in given]
        written: list[torch.Tensor] = []
        if func._schema.is_mutable:
            written = _tensors(written_by(func, args, kwargs))
            event.gives += [_word(tensor) for tensor in written]
            event.shapes += [f"{tensor.dtype} {list(tensor.shape)}" for tensor in written]
            given = [*given, *written]
            self._blank -= {_memory(tensor) for tensor in written}
        read = [t for t in tensors if not any(t is w for w in written)]
        self._take_as_made(given, read, number)
        if held is not None:
            held.take(given)
            self.held = held
        return result

    def _take_as_made(self, given: Any, read: list[torch.Tensor], number: int) -> None:
        """Note whose memory was written: a view of what was read is no new memory."""
        new = {_memory(tensor) for tensor in _tensors(given)} - {_memory(t) for t in read}
        self._made |= dict.fromkeys(new, number)
        self._blank -= new  # Memory that was free again.

    def _origin(self, read: list[torch.Tensor]) -> int:
        """Return who made what a copy is taken of."""
        return self._made.get(_memory(read[0]), -1) if read else -1

    def value(self, what: str, name: str, tensor: Any) -> None:
        """Note a value that is there at a boundary: a gradient, a weight that was updated."""
        if isinstance(tensor, torch.Tensor) and len(self.events) < MAX_EVENTS:
            self._note(Event(op=what, phase=self.phase), name, [tensor.detach()])

    def _note(self, event: Event, name: str, tensors: list[torch.Tensor]) -> None:
        if len(self.events) == self._hold:
            self.held = Held.of(tensors)
        event.names = {0: name} if name else {}
        event.gives = [_word(tensor) for tensor in tensors]
        event.shapes = [f"{tensor.dtype} {list(tensor.shape)}" for tensor in tensors]
        self.events.append(event)

    def _phase(self) -> str:
        if torch._C._current_autograd_node() is not None:
            return "backward"
        return "forward" if self._open and self.phase != "update" else self.phase

    def _module(self) -> str:
        if self._open:
            return self._open[-1][0]
        node: Any = torch._C._current_autograd_node()
        if node is None:
            return ""
        number, best, found = node._sequence_nr(), None, ""
        for start, end, name in self._spans:
            if start <= number < end and (best is None or end - start <= best):
                best, found = end - start, name
        return found

    def _before(self, module: Any, _args: Any) -> None:
        name = self._module_names.get(id(module))
        if name is not None and not torch.compiler.is_compiling():
            self._open.append((name, torch._C._autograd._get_sequence_nr()))

    def _after(self, module: Any, _args: Any, output: Any) -> None:
        name = self._module_names.get(id(module))
        if name is None or torch.compiler.is_compiling():
            return
        while self._open:
            opened, start = self._open.pop()
            if opened == name:
                self._spans.append((start, torch._C._autograd._get_sequence_nr(), name))
                break
        if self._mode is None:
            tensors = [t.detach() for _, t in flatten(output) if isinstance(t, torch.Tensor)]
            event = Event(op="module", module=name, phase="forward")
            with torch.no_grad():
                self._note(event, "", tensors)


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operation to the recorder while it notes."""

    everybits_own = True

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.active = True
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.active:
            return func(*args, **(kwargs or {}))
        return self._recorder.operation(func, args, kwargs or {})


def _word(tensor: torch.Tensor) -> int:
    word = word_of(tensor)
    if word is None:
        return 0
    return int(word) if isinstance(word, int) else int(word.item()) % (1 << 64)


def _memory(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


def _random_word() -> int:
    state = torch.get_rng_state()
    return xxhash.xxh3_64_intdigest(state.numpy().tobytes())


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def _plain(leaf: Any) -> str:
    if leaf is None or isinstance(leaf, (bool, int, float, str, complex)):
        return repr(leaf)
    if isinstance(leaf, torch.Generator):
        return "generator"
    return str(leaf)


@lru_cache(maxsize=4096)
def _computes_nothing(func: Any) -> bool:
    """Whether an operation gives no value of its own: views, copies, memory as it was found."""
    name = str(func)
    if any(part in name for part in _PASSING):
        return True
    if func._schema.is_mutable:
        return False
    returns = func._schema.returns
    return bool(returns) and all(each.alias_info is not None for each in returns)


def written_by(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the arguments that an operation writes into."""
    arguments = func._schema.arguments
    given = [*zip(args, arguments, strict=False)]
    given += [(kwargs[each.name], each) for each in arguments if each.name in kwargs]
    return [
        value for value, each in given if each.alias_info is not None and each.alias_info.is_write
    ]


def _tensors(nest: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(nest)[0] if isinstance(leaf, torch.Tensor)]
