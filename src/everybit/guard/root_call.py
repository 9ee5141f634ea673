"""Around the call of a root module.

Torch sends a module's call through the attribute `_compiled_call_impl` where it is set
(`Module.compile` does). It is a better place than forward hooks: it surrounds the call whatever
error ends it, and copies, pickles and scripts of the module do not take it along.
"""

from __future__ import annotations

import sys
import threading
import weakref
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_PLACE = "_compiled_call_impl"
_repeats = threading.local()
_num_repeating: list[int] = []


def repeating(*, anywhere: bool = False) -> bool:
    """Whether a call is being repeated by the Guard: it is none of the program's.

    Args:
        anywhere: In whatever thread; autograd has some of its own. Else in this one.
    """
    return bool(_num_repeating) if anywhere else getattr(_repeats, "depth", 0) > 0


@contextmanager
def repetition() -> Iterator[None]:
    """Repeat calls within: they pass root calls unseen."""
    _repeats.depth = getattr(_repeats, "depth", 0) + 1
    _num_repeating.append(0)
    try:
        yield
    finally:
        _repeats.depth -= 1
        _num_repeating.pop()


class RootCall:
    """A root module's call, between `enter` and `leave`.

    Args:
        root: The module; only a weak reference is kept.
        enter: Called with the module, and the positional and keyword arguments; an error of it ends
            the call.
        leave: Called once for each `enter` that returned, however the call ends, with the module,
            and with what it returned: nothing where an error ended it, else one value.
        around: Makes what the call itself runs within.
    """

    def __init__(
        self,
        root: torch.nn.Module,
        enter: Callable[[torch.nn.Module, Any, Any], None],
        leave: Callable[[torch.nn.Module, tuple[Any, ...]], None],
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._root = weakref.ref(root)
        self._enter = enter
        self._leave = leave
        self._around = around
        self._inner: Any = None
        self.install()

    @property
    def inner(self) -> Any:
        """What stood in the place before: a compiled call; None where nothing did."""
        return self._inner

    def surrounds(self, root: torch.nn.Module) -> bool:
        """Whether this is the call of `root`."""
        return self._root() is root

    def install(self) -> None:
        """Take the place, around what stands there now."""
        root = self._root()
        if root is not None and root.__dict__.get(_PLACE) is not self:
            self._inner = root.__dict__.get(_PLACE)
            root.__dict__[_PLACE] = self

    def remove(self) -> None:
        """Leave the place to what stood there before; another's that came later stays."""
        root = self._root()
        if root is not None and root.__dict__.get(_PLACE) is self:
            inner = self._inner
            while isinstance(inner, RootCall) and inner._leave is _nothing:
                inner = inner._inner  # Of a Guard that was left before this one.
            if inner is None:
                del root.__dict__[_PLACE]
            else:
                root.__dict__[_PLACE] = inner
        self._enter = self._leave = _nothing
        self._around = nullcontext

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        if torch.compiler.is_compiling() or torch._C._get_tracing_state() or repeating():
            return self._pass_on(args, kwargs)
        called = sys._getframe(1).f_locals.get("self")
        if isinstance(called, torch.nn.Module) and not self.surrounds(called):
            # A copy of the root's `__dict__` took this along; the call is the copy's own.
            if self._inner is None:
                return called._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
            return self._inner(*args, **kwargs)
        return self.surround(lambda: self._pass_on(args, kwargs), args, kwargs)

    def surround(self, call: Callable[[], Any], args: Any, kwargs: Any) -> Any:
        """Make a call of the module between `enter` and `leave`.

        Within a transform of `torch.func` inputs and outputs are no tensors with bytes of their
        own: they are not handed on.
        """
        root: Any = self._root()
        transformed = torch._C._functorch.maybe_current_level() is not None
        with _plain(transformed):
            self._enter(root, () if transformed else args, {} if transformed else kwargs)
        returned: tuple[Any, ...] = ()
        try:
            with nullcontext() if transformed else self._around():
                result = call()
            returned = (None if transformed else result,)
            return result
        finally:
            with _plain(transformed):
                self._leave(root, returned)

    def _pass_on(self, args: Any, kwargs: Any) -> Any:
        if self._inner is not None:
            return self._inner(*args, **kwargs)
        return self._root()._call_impl(*args, **kwargs)  # type: ignore[union-attr]

    def __deepcopy__(self, memo: Any) -> None:
        """Return what the place holds in an unwatched module."""

    def __reduce__(self) -> Any:
        return type(None), ()


def _plain(transformed: bool) -> AbstractContextManager[Any]:
    """Work on the tensors beneath a transform."""
    return torch._C._DisableFuncTorch() if transformed else nullcontext()


def _nothing(*_: Any) -> None:
    pass
