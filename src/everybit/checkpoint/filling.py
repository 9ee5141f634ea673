"""Containers that are made empty and filled later, so that nesting and cycles cost no stack."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from everybit.checkpoint.restored_numpy import OddError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Visits of containers that must be complete before something else is made of them.
_MAX_VISITS: Final = 100_000_000
_CONTAINERS: Final = (list, dict, tuple, set, frozenset)


class Filling:
    """What is still to be filled, in the order in which it was met."""

    def __init__(self) -> None:
        self._pending: dict[int, Callable[[], None]] = {}
        self._waiting: deque[int] = deque()
        self._budget = _MAX_VISITS

    def later(self, made: Any, fill: Callable[[], None]) -> None:
        """Have an empty container filled when its turn comes.

        Args:
            made: The container.
            fill: Fills it; it must hold `made`, so that its id stays its own.
        """
        self._pending[id(made)] = fill
        self._waiting.append(id(made))

    def drain(self) -> None:
        """Fill every container that is still empty."""
        while self._waiting:
            fill = self._pending.pop(self._waiting.popleft(), None)
            if fill is not None:
                fill()

    def complete(self, made: Any) -> Any:
        """Return an object after all that plain containers in it hold was filled in.

        Raises:
            OddError: Objects share each other so often that it would take for ever.
        """
        todo, seen = [made], set()
        while todo:
            held = todo.pop()
            if not isinstance(held, _CONTAINERS) or id(held) in seen:
                continue
            seen.add(id(held))
            fill = self._pending.pop(id(held), None)
            if fill is not None:
                fill()
            self._budget -= 1 + len(held)
            if self._budget < 0:
                raise OddError("uses its objects too often to be restored")
            todo += [*held, *held.values()] if isinstance(held, dict) else held
        return made
