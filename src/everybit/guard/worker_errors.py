"""The errors that torch raises in the middle of anything: that a loader's worker died.

Its handler of SIGCHLD raises them in the main thread, wherever that is by then: in the training
step, or in the Guard's own work.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

#: "DataLoader worker (pid 71) is killed by signal: Killed.", or "(pid(s) 71, 72) exited ...".
_TOLD: Final = re.compile(r"^DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)")


def is_of_worker(error: BaseException) -> bool:
    """Whether an error is torch's, and says that a worker died."""
    return isinstance(error, RuntimeError) and _TOLD.match(str(error)) is not None


def names_worker(error: BaseException, workers: Sequence[Any]) -> bool:
    """Whether an error, or one it was raised from, says that one of these workers died.

    Args:
        error: What was raised.
        workers: Worker processes of an iterator.
    """
    processes = {each.pid for each in workers}
    for cause in _causes(error):
        told = _TOLD.match(str(cause)) if is_of_worker(cause) else None
        if told and processes & {int(pid) for pid in told[1].split(",")}:
            return True
    return False


def is_cut_off(error: BaseException) -> bool:
    """Whether an error is what a process gets that asks a dead one for the memory of a batch."""
    return isinstance(error, ConnectionError | EOFError)


def wait_for_one(workers: Sequence[Any], timeout_s: float) -> None:
    """Wait until one of the workers has ended: it closes what it shares before it is gone."""
    with contextlib.suppress(Exception):  # They may be closed already.
        wait([each.sentinel for each in workers], timeout_s)


class DeathsLater:
    """Has torch's handler of SIGCHLD wait while a piece of work is done; a context manager.

    In other threads than the main one nothing is to be done: the handler never runs there. Where
    the work ends well and nobody has asked, the handler runs behind it.
    """

    def __init__(self) -> None:
        self._told: list[tuple[Any, ...]] = []
        self._handler: Any = None

    def __enter__(self) -> Self:
        number = getattr(signal, "SIGCHLD", None)
        if number is not None and threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(number)
            if callable(handler):
                self._handler = handler
                signal.signal(number, lambda *args: self._told.append(args))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGCHLD, self._handler)
            if error is None and self._told:
                self._handler(*self._told[-1])

    def error(self) -> BaseException | None:
        """Return what the handler raises about what it was to be told so far, if it does."""
        told, self._told = self._told, []
        try:
            if told:
                self._handler(*told[-1])
        except RuntimeError as raised:
            return raised
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
