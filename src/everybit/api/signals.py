"""Record the end of a job that is told to terminate, then let the signal do its work."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from everybit.ledger import EndReason

if TYPE_CHECKING:
    from collections.abc import Iterator


class Closable(Protocol):
    """What records the end."""

    @property
    def is_ours(self) -> bool: ...  # noqa: D102
    def close(self, reason: EndReason, code: int, detail: str) -> None: ...  # noqa: D102


@contextmanager
def end_on_signals(watch: Closable) -> Iterator[None]:
    """Close `watch` on SIGTERM and SIGHUP, where nobody else handles them."""

    def on_signal(number: int, _frame: Any) -> None:
        if watch.is_ours:
            watch.close(EndReason.SIGNAL, number, signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    on_signal.of_everybit = True  # type: ignore[attr-defined]
    hooked = []
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        try:
            before = signal.getsignal(number)
            # A forked child has its parent's handler, which knows that it is not the parent.
            if before is signal.SIG_DFL or getattr(before, "of_everybit", False):
                signal.signal(number, on_signal)
                hooked.append((number, before))
        except ValueError:  # Not the main thread.
            break
    try:
        yield
    finally:
        for number, before in hooked:
            if signal.getsignal(number) is on_signal:
                signal.signal(number, before)
