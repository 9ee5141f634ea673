"""The gradient norm is far outside its own recent band (a sensor).

What:
    The robust z of the logarithm of the gradient norm over 64 steps is above 10, and it is more
    than twice as far out as anything in that window.

Why it matters:
    Without clipping, one such update can undo much training.

Evidence:
    The norm, what it usually is, the parameter whose gradient has risen most, and the loss.
    Skipped steps do not count.

What to do:
    As for a loss spike. If the loss of the step is usual, look at the backward pass of the
    module named.

Known false alarms:
    Rare, large gradients are part of some losses (recurrent nets without clipping): the window
    has to have seen one. Clipping hides spikes, as it should.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM504",
    slug="gradient-spike",
    severity=Severity.WARNING,
    certainty=Certainty.WEAK,
    remedy="Clip gradients by their norm; run the same steps again and compare with `everybit "
    "diff`.",
    doc=__doc__,
)
