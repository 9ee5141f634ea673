"""Another loader moved the training order.

What:
    Passes over another loader, a validation loader say, drew from the stream that decides the order
    of the next epoch (the global stream, or a generator that both were given), and were not as many
    before this epoch as before others.

Why it matters:
    One validation pass more or less gives the rest of the training another order. Two runs that
    differ in how often they validate are then no longer comparable, and neither is a resumed one.

Evidence:
    The loader, the epoch, the other loader, and how often it was gone over. Passes that alternate
    the same way each epoch are none: the order is then the same in every run of the script. Nor are
    passes over a loader that is trained on, nor any where the stream was seeded since.

What to do:
    Give the training loader a generator of its own, `DataLoader(..., generator=
    torch.Generator().manual_seed(seed))`, or the validation loader one.

Known false alarms:
    Runs that need no comparison with another one: a model that is validated once more where it is
    the best so far, say.
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
