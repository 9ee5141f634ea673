"""A gradient changed between the backward pass and the update, and nothing wrote it.

What:
    A gradient holds other bytes when the optimizer is about to use it than backward (and unscaling
    or clipping after it) left, and no known writer had touched it.

Why it matters:
    The update spreads the wrong number over the weight and the moments, where it looks legitimate
    from then on. Clipping by norm spreads it over every parameter.

Evidence:
    The parameter, elements and bits of its gradient, each value before and after; whether the
    update had used it.

What to do:
    With on_finding="heal" the right bits are put back before the update. Otherwise go back to a
    checkpoint from before this step; test the machine's memory where it happens again.

Known false alarms:
    Code that edits `.grad` through a raw pointer or a NumPy view on purpose. Let it write through
    torch (`p.grad.mul_(2)`), which is counted.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="MEM603",
    slug="gradient-changed-at-rest",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy='Go back to a checkpoint from before this step, or run with on_finding="heal"; '
    "test the machine's memory.",
    doc=__doc__,
)
