"""The errors that torch raises in the middle of anything: that a loader's worker died.

Its handler of SIGCHLD raises them in the main thread, wherever that is by then: in the training
step, or in the Guard's own work.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
