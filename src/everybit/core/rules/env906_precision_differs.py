"""The two sides compute at other precisions.

What:
    A flag or variable that chooses the precision of products, convolutions, reductions or autocast
    differs.

Why it matters:
    TF32 and half precision round a thousand times more coarsely than float32: about 5e-4 of a
    value, 4e-3 in bfloat16. That is far above any difference of kernels.

Evidence:
    The entry and both values.

What to do:
    Set the same on both sides; everybit.seed_everything switches TF32 off.

Known false alarms:
    TF32 flags on a machine without such a GPU. They are compared all the same.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="ENV906",
    slug="precision-differs",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Choose the same precision on both sides; everybit.seed_everything switches TF32 off.",
    doc=__doc__,
)
