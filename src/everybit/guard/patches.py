"""Wrap functions and attributes of other modules while a Guard is active; undo it exactly."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MISSING = object()

#: What was undone beneath a later replacement, and what it had replaced: Guards may be left in any
#: order, and the last one puts the original back.
_buried: dict[int, tuple[Any, Any]] = {}


class Patches:
    """Attributes that were replaced, and what they were.

    Undone in reverse order. An attribute that somebody else has replaced since is left to them:
    what they kept of ours only passes the call on.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def wrap(self, holder: Any, name: str, around: Callable[..., Any]) -> None:
        """Call `around(original, *args, **kwargs)` in place of a function of `holder`."""
        original = getattr(holder, name)
        active = True

        def end() -> None:
            nonlocal active
            active = False

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not active:
                return original(*args, **kwargs)
            return around(original, *args, **kwargs)

        self.replace(holder, name, wrapped)
        self._undo.append(end)

    def wrap_inside(self, decorated: Any, around: Callable[..., Any]) -> None:
        """Call `around(original, *args, **kwargs)` in place of what a decorator of torch surrounds.

        So it is reached by whatever name the program has imported it. A function that is not
        decorated any more is left alone.
        """
        for cell in getattr(decorated, "__closure__", None) or ():
            if inspect.unwrap(decorated) is inspect.unwrap(cell.cell_contents):
                self._fill(cell, around)

    def _fill(self, cell: Any, around: Callable[..., Any]) -> None:
        original = cell.cell_contents
        active = True

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs) if active else original(*args, **kwargs)

        def undo() -> None:
            nonlocal active
            active = False
            if cell.cell_contents is wrapped:
                cell.cell_contents = original

        cell.cell_contents = wrapped
        self._undo.append(undo)

    def replace(self, holder: Any, name: str, value: Any) -> None:
        """Set an attribute of `holder`."""
        before = vars(holder).get(name, _MISSING)

        def undo() -> None:
            if vars(holder).get(name) is not value:
                _buried[id(value)] = (value, before)
                return
            below = before
            while id(below) in _buried:
                below = _buried.pop(id(below))[1]
            if below is _MISSING:
                delattr(holder, name)
            else:
                setattr(holder, name, below)

        setattr(holder, name, value)
        self._undo.append(undo)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()
