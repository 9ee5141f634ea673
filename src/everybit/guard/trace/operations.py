"""Every operation of chosen steps: what it gave, under the part of the model that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from everybit.guard.trace.tracer import Tracer

#: Operations whose results hold whatever lay in the memory before.
_UNFILLED: Final = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
)


class OperationMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Shows a tracer each operation's results; it computes nothing itself.

    Args:
        tracer: Is shown them.

    Attributes:
        everybits_own: It may be left out when the call is repeated.
    """

    everybits_own = True

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tracer = tracer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry an operation out, then show what it gave."""
        result = func(*args, **(kwargs or {}))
        name = _name(func)
        if name and self._tracer.armed:
            node = torch._C._current_autograd_node()
            number = -1 if node is None else node._sequence_nr()
            self._tracer.operation(name, number, result)
        return result


_names: dict[Any, str] = {}


def _name(func: Any) -> str:
    """Return an operation's name; "" for one that computes nothing (a view, an empty tensor)."""
    known = _names.get(func)
    if known is None:
        full = str(func)
        short = full.removesuffix(".default")
        base = short.split(".")[1] if "." in short else short
        known = _names[func] = "" if base in _UNFILLED or _only_shows(func) else short
    return known


def _only_shows(func: Any) -> bool:
    """Whether all results are views of what was given."""
    returns = func._schema.returns
    return bool(returns) and all(
        each.alias_info is not None and not each.alias_info.is_write for each in returns
    )
