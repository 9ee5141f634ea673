"""A function that is called with each finding, in the job's own thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.finding import Finding
    from everybit.core.observation import StepRecord
    from everybit.core.verdict import Verdict


class Callback:
    """A sink that hands findings to a function.

    Args:
        call: The function.
    """

    def __init__(self, call: Callable[[Finding], object]) -> None:
        self._call = call

    def step(self, record: StepRecord) -> None:
        """Steps are not handed on."""

    def finding(self, finding: Finding) -> None:
        """Call the function."""
        self._call(finding)

    def close(self, verdict: Verdict) -> None:
        """Nothing is left to do."""
