"""The calls of a model's parts, surrounded in the place where a root's call is.

No forward hook is set: some modules of torch compute otherwise where their parts have any, and
copies and pickles of the model would take them along.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

import torch

from everybit.guard.root_call import RootCall, repeating
from everybit.guard.uncompiled import anything_is_compiled
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: They hold modules and are not called themselves.
_HOLDERS = (torch.nn.ModuleList, torch.nn.ModuleDict)


class Tracer(Protocol):
    """What is told of the calls of parts."""

    armed: bool

    def begin(self, path: str) -> int:
        """Be told that a part is called; returns the call's number, -1 for one of no account."""
        ...

    def end(self, path: str, call: int, returned: tuple[Any, ...]) -> None:
        """Be told what the call gave: nothing where an error ended it."""
        ...


class PartCall(RootCall):
    """A part's call, told to a tracer while that is armed.

    Args:
        part: The module; only a weak reference is kept.
        path: Its qualified name.
        tracer: Is told.
    """

    def __init__(self, part: torch.nn.Module, path: str, tracer: Tracer) -> None:
        self.path = path
        self._tracer = tracer
        super().__init__(part, _quiet, _quiet)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        called = sys._getframe(1).f_locals.get("self")
        if isinstance(called, torch.nn.Module) and not self.surrounds(called):
            # A copy of the part's `__dict__` took this along; the call is the copy's own.
            inner = self.inner
            return inner(*args, **kwargs) if inner else called._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
        tracer = self._tracer
        if (
            not tracer.armed
            or torch.compiler.is_compiling()
            or torch._C._get_tracing_state()
            or repeating()
        ):
            return self._pass_on(args, kwargs)
        call = tracer.begin(self.path)
        if call < 0:
            return self._pass_on(args, kwargs)
        returned: tuple[Any, ...] = ()
        try:
            result = self._pass_on(args, kwargs)
            returned = (result,)
            return result
        finally:
            tracer.end(self.path, call, returned)


class Parts:
    """The surrounded parts of the roots, kept as the model is.

    Args:
        tracer: Is told of their calls.

    Attributes:
        why_closed: Why no part is surrounded, or some are not; "" where all are.
    """

    def __init__(self, tracer: Tracer) -> None:
        self.why_closed = ""
        self._tracer = tracer
        self._calls: dict[int, PartCall] = {}
        self._known: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def sync(self, roots: Iterable[tuple[torch.nn.Module, str | None]]) -> None:
        """Surround the parts that the roots have now, and leave those alone that are gone."""
        if anything_is_compiled():
            self.why_closed = "parts of this job are compiled: only what the model gives is seen"
            self.remove()
            return
        parts = [item for root, name in roots for item in parts_of(root, name)]
        known = [(path, id(part)) for path, part in parts]
        if known == self._known and all(
            self._calls[i].surrounds(p) for (_, p), (_, i) in zip(parts, known, strict=True)
        ):
            return
        wanted: dict[int, PartCall] = {}
        for path, part in parts:
            if id(part) in wanted:
                continue  # A shared module has the first of its names.
            call = self._calls.pop(id(part), None)
            if call is None or call.path != path or not call.surrounds(part):
                if call is not None:
                    call.remove()
                call = PartCall(part, path, self._tracer)
            wanted[id(part)] = call
        for call in self._calls.values():
            call.remove()
        self._calls, self._known = wanted, known

    def remove(self) -> None:
        """Leave every call as it was."""
        for call in self._calls.values():
            call.remove()
        self._calls, self._known = {}, []


def path_of(root: str | None, name: str) -> str:
    """Return the traced path of a part of a root.

    >>> path_of(None, "blocks.0"), path_of("Teacher", "blocks.0"), path_of("Teacher", "")
    ('blocks.0', 'Teacher:blocks.0', 'Teacher:')
    """
    return name if root is None else f"{root}:{name}"


def parts_of(root: torch.nn.Module, name: str | None) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the parts of a root that are called, wrappers left out, without the root itself."""
    top = unwrap(root)
    stack = [("", top)]
    seen: set[int] = set()
    while stack:
        prefix, part = stack.pop()
        if id(part) in seen or _is_closed(part):
            continue
        seen.add(id(part))
        if part is not top and not isinstance(part, _HOLDERS):
            yield path_of(name, prefix), part
        stack += [
            (f"{prefix}.{key}" if prefix else key, unwrap(child))
            for key, child in reversed(part._modules.items())
            if child is not None
        ]


def _is_closed(part: torch.nn.Module) -> bool:
    """Whether a part is compiled or scripted: what goes on in it is not seen."""
    compiled = part.__dict__.get("_compiled_call_impl")
    if compiled is not None and not isinstance(compiled, RootCall):
        return True
    return isinstance(part, torch.jit.ScriptModule) or type(part).__name__ == "OptimizedModule"


def _quiet(*_: Any) -> None:
    """Stand for what a root's call would be told: a part's is told to the tracer."""
