"""A training loop never clears its gradients.

What:
    A loop calls `backward` and the optimizer's `step`, and nothing in reach clears the gradients:
    no `zero_grad`, no `grad = None`.

Why it matters:
    PyTorch adds each gradient to what is there. Never cleared, each update is made from the sum
    of all steps so far: training runs, and goes somewhere else.

Evidence:
    The optimizer, the line of `backward`, the line of `step`, and the loop.

What to do:
    Call `optimizer.zero_grad(set_to_none=True)` once after each `step`, or before `backward`;
    when gradients are accumulated on purpose, once for each group of micro-batches.

Known false alarms:
    An optimizer of one's own, out of sight, that clears gradients in its `step`. Benchmarks that
    only time the loop and do not look at what it learns.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC314",
    slug="gradients-not-cleared",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Call `optimizer.zero_grad()` once for each update.",
    doc=__doc__,
)
