"""The moments of a training step at which something can be checked, planted or recorded."""

from __future__ import annotations

from enum import StrEnum


class Boundary(StrEnum):
    """A moment of a step. The order of definition is the order in time.

    `rewrite_start` and `rewrite_end` surround what rewrites gradients in place on purpose:
    unscaling and clipping. They are there only where a step does that. `closure_end` comes within
    an update that is given a closure, each time that has returned.

    >>> list(Boundary)[0]
    <Boundary.FORWARD_START: 'forward_start'>
    """

    FORWARD_START = "forward_start"
    FORWARD_END = "forward_end"
    BACKWARD_START = "backward_start"
    BACKWARD_END = "backward_end"
    REWRITE_START = "rewrite_start"
    REWRITE_END = "rewrite_end"
    STEP_START = "step_start"
    CLOSURE_END = "closure_end"
    STEP_END = "step_end"
