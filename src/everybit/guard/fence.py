"""A fence around the Guard's own work: a fault of its own never takes the job down."""

from __future__ import annotations

import os
import time
import traceback
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from everybit.guard.policy import LOGGER
from everybit.guard.worker_errors import is_of_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from everybit.guard.journal import Journal


class Fence:
    """Calls the Guard's functions; the first error of one is told once and ends them all.

    Attributes:
        fault: The error, "" where there was none.
        is_inside: Whether a function is being called.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.is_inside = False
        self._journal: Journal | None = None
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process is the job: a forked child, a DataLoader worker say, is not."""
        return os.getpid() == self._pid

    def open(self, journal: Journal) -> None:
        """Call functions from now on; their time goes to the journal."""
        self._journal = journal

    def close(self) -> None:
        """Call nothing any more."""
        self._journal = None

    def __call__(self, look: Callable[..., Any], *args: Any) -> Any:
        """Return what `look` returns; None where it is not called, or fails."""
        if self.fault or self._journal is None or not self.is_ours:
            return None
        journal = self._journal
        inside, self.is_inside = self.is_inside, True
        began = time.perf_counter()
        try:
            with torch._C.DisableTorchFunction():
                # As `torch.no_grad` does, at a fraction of its cost.
                grad = torch.is_grad_enabled()
                torch._C._set_grad_enabled(False)
                try:
                    if not _modes_are_active():
                        return look(*args)
                    with _no_modes():
                        return look(*args)
                finally:
                    torch._C._set_grad_enabled(grad)
        except Exception as error:
            if is_of_worker(error):
                raise  # It is the program's: torch raised it here by chance.
            self.give_up(error)
            return None
        finally:
            self.is_inside = inside
            journal.spent_s += time.perf_counter() - began

    def give_up(self, error: Exception) -> None:
        """End all checks because of an error of the Guard's own."""
        self.fault = f"{type(error).__name__}: {error}"
        LOGGER.warning(
            "everybit: a fault of its own ended the checks, the job goes on; %s", self.fault
        )
        LOGGER.debug("%s", "".join(traceback.format_exception(error)))


def _modes_are_active() -> bool:
    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


@contextmanager
def _no_modes() -> Iterator[None]:
    """Keep the program's dispatch modes (fake tensors ...) and transforms away from our work."""
    with ExitStack() as stack:
        if torch._C._len_torch_dispatch_stack():
            stack.enter_context(_disable_current_modes())
        if torch._C._functorch.peek_interpreter_stack() is not None:
            stack.enter_context(torch._C._DisableFuncTorch())
        yield
