"""A buffer took a non-finite or impossible value.

What:
    A float buffer that was finite at the start holds NaN, running statistics of a normalisation
    layer hold infinity or a negative variance, or their norm grew more than ten-thousandfold in
    one step after they had settled.

Why it matters:
    The training loss looks normal, since training normalises by the batch; evaluation is ruined
    for as long as the buffer remembers.

Evidence:
    The buffer, its norm before and after, how many buffers are concerned, and the losses of the
    step.

What to do:
    Look at the batch of that step. Set the statistics back from a checkpoint, or let some clean
    batches pass with a higher momentum.

Known false alarms:
    Buffers that were not finite at the start (masks, bounds that nothing has met yet) are none.
    Inputs that really change their scale ten-thousandfold: announce that with `guard.phase`;
    such a jump is of certainty `strong`.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM506",
    slug="buffer-poisoned",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Restore the buffer from a checkpoint from before this step; look at the batch of "
    "the step.",
    doc=__doc__,
)
