"""Before the run: does this job repeat bit for bit, what does not, and what would make it."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from everybit.core.mismatch import Unrepeatable
from everybit.guard.replay.operations import Operations
from everybit.guard.replay.repeat import repeat
from everybit.guard.replay.values import differ, on_host
from everybit.probe.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from everybit.guard.readout import Word
    from everybit.guard.replay.record import CallRecord

    Key = tuple[str, str, bool]

#: Repeats that are compared with each other.
NUM_REPEATS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What was found before the run.

    Attributes:
        found: The operations that do not repeat, in order of execution.
        num_operations: Operations that were compared.
        cost: Time of a call and its backward pass with deterministic algorithms over that without;
            None where nothing calls for them.
    """

    found: tuple[Unrepeatable, ...]
    num_operations: int
    cost: float | None


def preflight(record: CallRecord) -> Preflight:
    """Compute a call several times, and compare operation by operation.

    Args:
        record: The first call of a model, its backward pass included.

    Raises:
        CannotRepeatError: It cannot be made again.
    """
    differing, num_operations = _differing(record, nullcontext)
    remedies: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "torch.use_deterministic_algorithms(True)": _deterministic
    }
    if differing and torch.get_num_threads() > 1:
        remedies["torch.set_num_threads(1)"] = one_thread
    helped: dict[Key, list[str]] = {key: [] for key in differing}
    if differing:
        for name, mode in remedies.items():
            still, _ = _differing(record, mode)
            for key in differing:
                if key not in still:
                    helped[key].append(name)
    found = tuple(
        Unrepeatable(
            module=module,
            operation=operation,
            backward=backward,
            num_repeats=NUM_REPEATS,
            repeats_with=tuple(helped[module, operation, backward]),
        )
        for module, operation, backward in differing
    )
    cost = _time(record, _deterministic) / _time(record, nullcontext) if differing else None
    return Preflight(found=found, num_operations=num_operations, cost=cost)


def _differing(
    record: CallRecord, mode: Callable[[], AbstractContextManager[None]]
) -> tuple[list[Key], int]:
    """Return the operations that gave something else from the same, and how many there were."""
    traces = []
    for _ in range(NUM_REPEATS):
        operations = Operations(digests=True)
        repeat(record, operations=operations, mode=mode())
        traces.append(operations.found)
    first = traces[0]
    found: dict[Key, None] = {}
    for other in traces[1:]:
        for one, two in zip(first, other, strict=False):
            if one.name != two.name:
                break  # It took another path: what comes after is not compared.
            if not _part(one.inputs, two.inputs) and _part(one.words, two.words):
                found[one.module, one.name, one.backward] = None
    return list(found), len(first)


def _part(one: Sequence[Word | None], two: Sequence[Word | None]) -> bool:
    return any(map(differ, on_host(one), on_host(two)))


def _time(record: CallRecord, mode: Callable[[], AbstractContextManager[None]]) -> float:
    best = float("inf")
    for _ in range(NUM_REPEATS):
        began = time.perf_counter()
        repeat(record, mode=mode())
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return best


@contextmanager
def _deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)
