"""The five moments of a training step at which something can be checked, planted or recorded."""

from __future__ import annotations

from enum import StrEnum


class Boundary(StrEnum):
    """A moment of a step. The order of definition is the order in time.

    >>> list(Boundary)[0]
    <Boundary.FORWARD_START: 'forward_start'>
    """

    FORWARD_START = "forward_start"
    FORWARD_END = "forward_end"
    BACKWARD_END = "backward_end"
    STEP_START = "step_start"
    STEP_END = "step_end"
