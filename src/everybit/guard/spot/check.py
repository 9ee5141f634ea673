"""The check on products while they are computed."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everybit.core.boundary import Boundary
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.spot import SpotFault, judge_spot
from everybit.guard.check import Check
from everybit.guard.spot.mode import SpotMode, Suspicion
from everybit.guard.uncompiled import anything_is_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import torch

    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment
    from everybit.guard.readout import Readout, Ticket


class SpotCheck(Check):
    """Test products and convolutions by checksums, in calls and backward passes (CMP701).

    On the CPU a suspicious one is computed again at once, and only what that confirms is a finding.
    On an accelerator that would be a sync: it is read when the step has ended, and is a warning.

    Args:
        readout: Brings the flags of accelerators at the end of the step.
        rank: Rank of this process.
        heal: Hand on what repeats agree on, in the place of what was computed first.
        name_of: Tells a module's name, "" where it has none.
        parameter_of: Tells the name of the parameter whose memory a tensor is, "" where none.
    """

    def __init__(
        self,
        readout: Readout,
        *,
        rank: int,
        heal: bool,
        name_of: Callable[[torch.nn.Module], str],
        parameter_of: Callable[[torch.Tensor], str],
    ) -> None:
        self._readout = readout
        self._rank = rank
        self._heal = heal
        self._name_of = name_of
        self._parameter_of = parameter_of
        self._lock = threading.Lock()
        self._local = threading.local()
        self._armed = False
        self._compiled = False
        self._told: list[Suspicion] = []
        self._deferred: list[tuple[torch.Tensor, Suspicion]] = []
        self._open: list[tuple[Ticket, Suspicion]] = []
        self._tested: Counter[str] = Counter()
        self._untested: Counter[str] = Counter()
        self._count = 0
        self._fault = ""

    def around(self) -> AbstractContextManager[Any]:
        """Return what a call or a backward pass runs within."""
        if not self._armed or self._fault or getattr(self._local, "inside", False):
            return nullcontext()
        if anything_is_compiled():
            self._compiled = True
            return nullcontext()
        return self._within()

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Return what was confirmed since the last boundary."""
        if boundary in (Boundary.FORWARD_START, Boundary.BACKWARD_START):
            self._armed = True
        elif boundary is Boundary.STEP_END:
            self._armed = False
            with self._lock:
                deferred, self._deferred = self._deferred, []
            self._open = [(self._readout.ask([flag]), what) for flag, what in deferred]
        return self._judged(moment.step)

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Return what accelerators were asked about."""
        opened, self._open = self._open, []
        return [
            self._finding(suspicion, moment.step) for ticket, suspicion in opened if ticket.words[0]
        ]

    def coverage(self) -> Coverage:
        """Return how many products were tested, and which were not."""
        checked = [
            Checked(what=f"products by checksum ({name})", count=count)
            for name, count in sorted(self._tested.items())
        ]
        skipped = [
            Skipped(
                what=f"{count} calls of {name}",
                why="no checksum is known for this operation, dtype or layout",
                promised=False,
            )
            for name, count in sorted(self._untested.items())
        ]
        if self._compiled:
            why = "parts of this job are compiled: within them no product is seen"
            skipped.append(Skipped(what="products by checksum", why=why))
        if self._fault:
            skipped.append(Skipped(what="products by checksum", why=self._fault))
        if not self._tested and not skipped:
            skipped.append(Skipped(what="products by checksum", why="there was none"))
        return Coverage(checked=tuple(checked), skipped=tuple(skipped))

    def close(self) -> None:
        """Test nothing any more."""
        self._armed = False

    def _within(self) -> AbstractContextManager[Any]:
        mode = SpotMode(
            told=self._tell,
            deferred=self._defer,
            counted=self._counted,
            failed=self._fail,
            heal=self._heal,
        )
        return _Once(mode, self._local)

    def _tell(self, suspicion: Suspicion) -> None:
        with self._lock:
            self._told.append(suspicion)

    def _defer(self, flag: torch.Tensor, suspicion: Suspicion) -> None:
        # Not the operands: they would be kept until the step has ended.
        named = replace(suspicion, operands=())
        with self._lock:
            self._deferred.append((flag, named))

    def _counted(self, func: Any, tested: bool) -> int:
        with self._lock:
            if func is None:
                self._count += 1
            else:
                name = str(func).removesuffix(".default")
                (self._tested if tested else self._untested)[name] += 1
            return self._count

    def _fail(self, error: Exception) -> None:
        self._fault = f"{type(error).__name__}: {error}"

    def _judged(self, step: int) -> list[Finding]:
        with self._lock:
            told, self._told = self._told, []
        return [self._finding(suspicion, step) for suspicion in told]

    def _finding(self, suspicion: Suspicion, step: int) -> Finding:
        names = [self._parameter_of(tensor) for tensor in suspicion.operands]
        return judge_spot(
            SpotFault(
                step=step,
                rank=self._rank,
                operation=suspicion.operation,
                module="" if suspicion.module is None else self._name_of(suspicion.module),
                node=suspicion.node,
                parameter=next((name for name in names if name), ""),
                device=suspicion.device,
                dtype=suspicion.dtype,
                shape=suspicion.shape,
                distance=suspicion.distance,
                num_repeats=suspicion.num_repeats,
                num_same=suspicion.repeats,
                agreeing=suspicion.agreeing,
                elements=suspicion.elements,
                changes=suspicion.changes,
                inexplicable=suspicion.inexplicable,
                healed=suspicion.healed,
            )
        )


class _Once:
    """A mode that is entered once a thread: calls within calls are in it already."""

    def __init__(self, mode: SpotMode, local: threading.local) -> None:
        self._mode = mode
        self._local = local

    def __enter__(self) -> None:
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        self._local.inside = True

    def __exit__(self, *error: object) -> None:
        self._local.inside = False
        self._mode.__exit__(*error)  # type: ignore[no-untyped-call]
