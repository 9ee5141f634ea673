"""Another loader moved the training order.

What:
    A pass over another loader, a validation pass say, drew from the stream that decides the order
    of the next epoch: a generator that both share; or the global stream, where such passes were
    not as many before this epoch as before others.

Why it matters:
    One validation pass more or less gives the rest of the training another order. Two runs that
    differ in how often they validate are then no longer comparable, and neither is a resumed one.

Evidence:
    The loader, the epoch, the other loader, and how often it was gone over.

What to do:
    Give the training loader a generator of its own, `DataLoader(..., generator=
    torch.Generator().manual_seed(seed))`, or the validation loader one.

Known false alarms:
    Runs that need no comparison with another one.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT415",
    slug="order-moved",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Give the training loader a generator of its own.",
    doc=__doc__,
)
