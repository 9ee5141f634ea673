"""Optimizer state changed between two steps, and no update did it.

What:
    The moments, counters or other state tensors of an optimizer differ from what its last step
    left, and no known writer had touched them.

Why it matters:
    A sign flip in Adam's second moment gives NaN a step later; an exponent flip upward freezes
    the parameter for good without any alarm.

Evidence:
    The optimizer, the parameter, the state tensor (`exp_avg`, `exp_avg_sq`, `step`), elements
    and bits, each value before and after.

What to do:
    As for weights: go back, or heal. Statistics on the loss see next to none of these.

Known false alarms:
    Code that edits optimizer state through a raw pointer or NumPy view on purpose. Call
    `guard.rebaseline()` after it.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="MEM602",
    slug="optimizer-state-changed-at-rest",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy='Go back to a checkpoint from before this step, or run with on_finding="heal"; '
    "test the machine's memory.",
    doc=__doc__,
)
