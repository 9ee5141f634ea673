"""A fence around a sink: its own failure is one warning and the end of that sink."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.finding import Finding
    from everybit.core.observation import StepRecord
    from everybit.core.sink import Sink
    from everybit.core.verdict import Verdict

LOGGER = logging.getLogger("everybit")


class Fenced:
    """A sink that never raises.

    Args:
        name: What people call it.
        sink: The sink.
    """

    def __init__(self, name: str, sink: Sink) -> None:
        self.name = name
        self.failure = ""
        self._sink = sink

    def step(self, record: StepRecord) -> None:
        """Take a finished or skipped update."""
        self._call(self._sink.step, record)

    def finding(self, finding: Finding) -> None:
        """Take a finding."""
        self._call(self._sink.finding, finding)

    def close(self, verdict: Verdict) -> None:
        """Take the verdict and finish."""
        self._call(self._sink.close, verdict)

    def _call(self, tell: Callable[[Any], None], value: Any) -> None:
        if self.failure:
            return
        try:
            tell(value)
        except Exception as error:
            self.failure = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            LOGGER.warning("everybit: %s failed and is told no more; %s", self.name, self.failure)
            LOGGER.debug("%s failed", self.name, exc_info=error)
