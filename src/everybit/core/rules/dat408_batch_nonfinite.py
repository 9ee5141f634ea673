"""A batch that the model is given holds NaN or infinity.

What:
    A float input of the model holds values that are not finite.

Why it matters:
    One NaN in one sample makes the loss, all gradients and then all weights NaN. What broke is the
    data, not the model or the machine.

Evidence:
    The input, how many NaN and infinities it holds, its rows, and the samples they belong to.

What to do:
    Look at the samples that are named. Check for a division by a zero spread, a logarithm of zero,
    missing values read as NaN.

Known false alarms:
    Models that mask missing values: where the loss is finite all the same, the finding is a
    `warning` of certainty `strong`. An additive mask (zeros and -inf) is none.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT408",
    slug="batch-nonfinite",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Look at the samples that are named, and at what their values are divided by.",
    doc=__doc__,
)
