"""Is it a race? The same call, with each operation waited for, and without.

On an accelerator the program runs ahead of its kernels. Where one of them reads what another has
not written yet, results depend on when each one comes. Waited for one by one, they cannot meet.
Additions in no fixed order (atomic ones) differ within one kernel, and go on differing then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from everybit.guard.replay.compare import agree, compare, read_all
from everybit.guard.replay.repeat import repeat
from everybit.guard.replay.values import differ

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.guard.replay.record import CallRecord
    from everybit.guard.replay.repeat import Repeated

#: Repeats with every operation waited for: all have to agree. What differs by chance in one of
#: three computations agrees in eight with a chance below 5 %.
NUM_SYNCHRONOUS: Final = 8
#: Computations without waiting that have to differ from these.
MIN_APART: Final = 2


@dataclass(frozen=True, slots=True)
class Race:
    """A call that differs only with asynchronous execution.

    Attributes:
        num_alike: Computations that agree: those with waiting, and others that came to the same.
        num_apart: Computations without waiting that do not.
    """

    num_alike: int
    num_apart: int


class Synchronous(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Waits for the device after each operation.

    Args:
        wait: Returns when all that the device was given is done.
    """

    everybits_own = True

    def __init__(self, wait: Callable[[], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._wait = wait

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._wait()
        return result


def waiting_for(record: CallRecord) -> Callable[[], Any] | None:
    """Return what waits for the device of a call; None on the CPU, whose operations wait anyway."""
    tensors = [t for t, _ in record.outputs] or [p for _, p, _, _ in record.weights]
    kind = tensors[0].device.type if tensors else "cpu"
    return None if kind == "cpu" else getattr(getattr(torch, kind, None), "synchronize", None)


def find_race(record: CallRecord, repeats: Sequence[Repeated]) -> Race | None:
    """Repeat a call with each operation waited for; None where that tells nothing.

    Args:
        record: The call.
        repeats: Repeats without waiting, which differ among themselves or from the call.

    Raises:
        CannotRepeatError: It cannot be made again.
    """
    wait = waiting_for(record)
    if wait is None:
        return None
    right = repeat(record, mode=Synchronous(wait))
    for _ in range(NUM_SYNCHRONOUS - 1):
        if not agree(right, repeat(record, mode=Synchronous(wait))):
            return None
    apart = sum(_part(right, each) for each in repeats) + (compare(record, right) is not None)
    if apart < MIN_APART:
        return None
    return Race(NUM_SYNCHRONOUS + len(repeats) + 1 - apart, apart)


def _part(one: Repeated, other: Repeated) -> bool:
    """Whether two repeats differ in what both have compared."""
    if one.words.keys() == other.words.keys():
        return not agree(one, other)
    # Within a dispatch mode torch may record other views: the outputs are the same places still.
    read_all(one, other)
    return any(map(differ, one.output_words, other.output_words))
