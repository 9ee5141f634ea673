"""A step computed again, from what it began with: the same bits come out, or something is wrong.

Each call of a root module on a replayed step is recorded by hooks, and made again when its backward
pass has ended, while the weights are still what they were. Compared are its outputs, and the
gradients that this call alone has given to parameters and inputs: never `.grad`, which also holds
what a loop adds outside the model.
"""

from everybit.guard.replay.compare import Difference, compare
from everybit.guard.replay.record import CallRecord, Recorder
from everybit.guard.replay.repeat import CannotRepeatError, Repeated, repeat

__all__ = [
    "CallRecord",
    "CannotRepeatError",
    "Difference",
    "Recorder",
    "Repeated",
    "compare",
    "repeat",
]
