"""Which threads are inside a root call or an update: tests are exact while nobody writes."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

#: The code that runs every optimizer's `step` between its hooks.
_STEP_CODE: Any = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__


class Threads:
    """Depth of root calls and running updates, a thread.

    An error ends an update with no hook called: whether one is still running is read from the
    stack of its thread.

    Args:
        abandon: Called with an optimizer whose update was left by an error.
    """

    def __init__(self, abandon: Callable[[torch.optim.Optimizer], None]) -> None:
        self._abandon = abandon
        self._depths: dict[int, int] = {}
        self._running: dict[int, list[torch.optim.Optimizer]] = {}

    @property
    def inside(self) -> bool:
        """Whether any thread is inside a root call or an update."""
        return bool(self._depths) or any(self._still(thread) for thread in list(self._running))

    @property
    def alone(self) -> bool:
        """Whether no other thread is inside a root call or an update."""
        me = threading.get_ident()
        if len(self._depths) + len(self._running) <= (me in self._depths) + (me in self._running):
            return True
        living = {thread.ident for thread in threading.enumerate()}
        for gone in [thread for thread in self._depths if thread not in living]:
            del self._depths[gone]
        return all(thread == me for thread in self._depths) and not any(
            self._still(thread) for thread in list(self._running) if thread != me
        )

    def enter(self) -> bool:
        """Begin a root call in this thread; whether it is the outermost."""
        me = threading.get_ident()
        self._depths[me] = self._depths.get(me, 0) + 1
        return self._depths[me] == 1

    def leave(self) -> bool:
        """End a root call in this thread; whether it was the outermost."""
        me = threading.get_ident()
        self._depths[me] = self._depths.get(me, 1) - 1
        if self._depths[me] > 0:
            return False
        del self._depths[me]
        return True

    def updating(self) -> tuple[torch.optim.Optimizer, ...]:
        """Return the optimizers whose update is running in this thread."""
        return tuple(self._still(threading.get_ident()))

    def begin(self, optimizer: torch.optim.Optimizer) -> bool:
        """Begin an update in this thread; whether it is no part of another."""
        me = threading.get_ident()
        outer = list(self._still(me, begun=optimizer))
        self._running[me] = [*outer, optimizer]
        return not outer

    def end(self, optimizer: torch.optim.Optimizer) -> bool:
        """End an update in this thread; whether it was no part of another."""
        me = threading.get_ident()
        running = self._running.get(me, [])
        for index in range(len(running) - 1, -1, -1):
            if running[index] is optimizer:
                del running[index:]
                break
        if running:
            return False
        self._running.pop(me, None)
        return True

    def _still(
        self, thread: int, *, begun: torch.optim.Optimizer | None = None
    ) -> list[torch.optim.Optimizer]:
        """Return the updates running in a thread; those left by an error are abandoned.

        Args:
            thread: Its identity.
            begun: An optimizer whose update has just begun: one frame of it is not the old one's.
        """
        running = self._running.get(thread)
        if not running:
            return []
        frames = _stepping(thread)
        if begun is not None and id(begun) in frames:
            frames.remove(id(begun))
        over = []
        for optimizer in running:
            if id(optimizer) in frames:
                frames.remove(id(optimizer))
            else:
                over.append(optimizer)
        left = [optimizer for optimizer in running if not any(optimizer is o for o in over)]
        if left:
            self._running[thread] = left
        else:
            del self._running[thread]
        for optimizer in over:
            self._abandon(optimizer)
        return left


def _stepping(thread: int) -> list[int]:
    """Return the identities of the optimizers whose `step` is on a thread's stack."""
    own = thread == threading.get_ident()
    frame: Any = sys._getframe() if own else sys._current_frames().get(thread)
    found = []
    while frame is not None:
        if frame.f_code is _STEP_CODE:
            found.append(id(frame.f_locals.get("self")))
        frame = frame.f_back
    return found
