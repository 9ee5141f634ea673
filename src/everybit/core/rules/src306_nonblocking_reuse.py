"""Memory is used before an asynchronous copy of it has ended.

What:
    A pinned buffer is written again while a `non_blocking=True` copy out of it may still run. Or
    a tensor that is being copied to the CPU with `non_blocking=True` is read before a
    synchronisation.

Why it matters:
    The copy is only queued when the call returns. A write into the pinned source changes the
    batch that arrives on the GPU; a read of the CPU copy sees whatever was in the memory before.
    Both depend on timing, happen now and then, and raise nothing.

Evidence:
    The tensor, the line of the copy, and the line of the write or read.

What to do:
    For copies to the CPU, drop `non_blocking=True`, or wait with `torch.cuda.synchronize()` or an
    event before the values are read. For a reused pinned buffer, record an event after the copy
    and wait for it before the next write, or use several buffers in turn.

Known false alarms:
    A tensor that is on the CPU already, for which `.to("cpu", non_blocking=True)` copies nothing.
    A synchronisation hidden in a function out of sight.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC306",
    slug="nonblocking-reuse",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Synchronise (an event, or `torch.cuda.synchronize()`) before the memory is used again.",
    doc=__doc__,
)
