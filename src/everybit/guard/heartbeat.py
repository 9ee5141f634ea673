"""Notice that this process stood still: stopped by a signal, frozen by its container, starved.

The other ranks only see that a collective takes long, and the one that stood still sees nothing at
all. A thread that wakes up now and then does: it wakes up late, and no processor time has gone by.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_SLEEP_S: Final = 1.0
#: A process that computes (and lets no other thread run) uses about a second of it a second.
_MOST_BUSY: Final = 0.3


class Heartbeat:
    """A daemon thread between `start` and `stop`.

    Args:
        note: Called with the seconds for which the process stood still, from that thread or in
            `stop`.
        least_s: Shorter ones are not noted; at least a second.
        clock: Seconds that go by, whatever happens.
        busy: Seconds of processor time of this process.
    """

    def __init__(
        self,
        note: Callable[[float], None],
        least_s: float,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.process_time,
    ) -> None:
        self._note = note
        self._least_s = max(least_s, 1.0)
        self._sleep_s = min(_LONGEST_SLEEP_S, self._least_s / 4)
        self._clock = clock
        self._busy = busy
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._last = (clock(), busy())
        self._beats = False

    def start(self, num_ranks: int) -> None:
        """Begin to beat, where there are others that would have to wait."""
        if num_ranks < 2:
            return
        self._beats = True
        self._last = (self._clock(), self._busy())
        threading.Thread(target=self._beat, name="everybit-heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Look for the last time; without `start`, do nothing."""
        if self._beats and not self._over.is_set():
            self._over.set()
            self.look()

    def look(self) -> None:
        """Note it where the process has stood still since the last look."""
        with self._lock:
            now, busy = self._clock(), self._busy()
            gone = now - self._last[0]
            used = busy - self._last[1]
            self._last = (now, busy)
        if gone - self._sleep_s >= self._least_s and used <= _MOST_BUSY * gone:
            self._note(gone)

    def _beat(self) -> None:
        while not self._over.wait(self._sleep_s):
            self.look()
