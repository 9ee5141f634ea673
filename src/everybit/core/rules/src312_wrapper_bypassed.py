"""A training step calls the module inside DistributedDataParallel, past its reducer.

What:
    The loss of a training step comes from a call through `.module` of a `DistributedDataParallel`
    model, and the wrapper itself is not called.

Why it matters:
    The wrapper's `forward` is what arms the reduction of gradients. Past it, `backward` leaves
    each rank with its own gradient: the replicas part at the first update and every rank trains
    its own model on its own part of the data. The loss looks normal.

Evidence:
    The wrapped model, the call, and the line of the `backward` that its result reaches.

What to do:
    Call the wrapper: `model(batch)`. Where another method than `forward` is needed, let `forward`
    choose it by an argument.

Known false alarms:
    Code that reduces the gradients by hand; nothing is said where an `all_reduce` is in sight,
    where the wrapper is called too, or under `no_grad`.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC312",
    slug="wrapper-bypassed",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Call the DistributedDataParallel wrapper itself, not its `.module`.",
    doc=__doc__,
)
