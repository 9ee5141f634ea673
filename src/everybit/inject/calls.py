"""Around the calls of a root module, outside of what a Guard does there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

_PLACE = "_compiled_call_impl"


class CallOfRoot:
    """A module's call; stands in the attribute that torch sends calls through.

    A Guard stands there too: what comes later is outside, and so plants before the Guard's look.

    Args:
        module: The module, as the loop calls it.
        before: Called with positional and keyword arguments; returns those to go on with.
        after: Called when the call has returned; not where an error ended it.
    """

    def __init__(
        self,
        module: nn.Module,
        before: Callable[[Any, Any], tuple[Any, Any]],
        after: Callable[[], None],
    ) -> None:
        self._module = module
        self._before = before
        self._after = after
        self._inner: Any = module.__dict__.get(_PLACE)
        module.__dict__[_PLACE] = self

    @property
    def inner(self) -> Any:
        """What the call is handed on to; None where that is the module itself."""
        return self._inner

    def remove(self) -> None:
        """Leave the place as it was; another's that came later stays."""
        if self._module.__dict__.get(_PLACE) is self:
            if self._inner is None:
                del self._module.__dict__[_PLACE]
            else:
                self._module.__dict__[_PLACE] = self._inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        call = self._module._call_impl if self._inner is None else self._inner
        if torch.compiler.is_compiling():
            return call(*args, **kwargs)
        args, kwargs = self._before(args, kwargs)
        result = call(*args, **kwargs)
        self._after()
        return result

    def __deepcopy__(self, memo: Any) -> None:
        """Return what the place holds elsewhere."""
