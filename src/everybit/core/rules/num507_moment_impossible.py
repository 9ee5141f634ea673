"""Optimizer state that no run of the optimizer can have left.

What:
    A second moment below zero, moments that are not finite, moments of another shape than their
    parameter, a first moment too large for the second: under Adam m^2 <= C v holds for every
    element whatever the gradients were, with C = (1 - b1)^2 / ((1 - b2) (1 - b1^2 / b2)), 52.9
    for the default betas (by Cauchy-Schwarz). Also step counters that were set, unlike the
    others, and names of parameters that came with the state and are those of other parameters
    (`warning`, `strong`).

Why it matters:
    A negative second moment gives NaN in the same update. State on the wrong parameter scales
    every update wrongly, in silence.

Evidence:
    The state tensor, the parameter, the first elements with their values, the bound. All of it
    is confirmed element by element.

What to do:
    State from a checkpoint: load it into an optimizer that was built in the same order.
    Otherwise go back, and test the machine's memory.

Known false alarms:
    Optimizers that only look like Adam are tested for negative and non-finite values alone.
    State that code sets on purpose to what Adam cannot reach.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM507",
    slug="moment-impossible",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Go back to a checkpoint from before this step; load state into an optimizer built "
    "in the same order.",
    doc=__doc__,
)
