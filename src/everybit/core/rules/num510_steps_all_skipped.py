"""A GradScaler only skips: the parameters are frozen.

What:
    Eight steps in a row were skipped after the scale had been found, or 24 from the start.

Why it matters:
    The model no longer learns while the loss stays finite, and the scale falls without end.

Evidence:
    The first skipped step, the scale then and now, and where its gradients went bad.

What to do:
    Gradients that stay infinite at any scale come from an overflow in the model itself: keep
    the module named in float32 or use bfloat16.

Known false alarms:
    A healthy run skips its first steps (ten or so) until the scale fits, and one now and then.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM510",
    slug="steps-all-skipped",
    severity=Severity.ERROR,
    certainty=Certainty.STRONG,
    remedy="Keep the module named in float32, or train in bfloat16; go back to before the "
    "first skip.",
    doc=__doc__,
)
