"""The loss is NaN or infinite.

What:
    A tensor that `backward` was called on is not finite, before any scaling by a GradScaler. A
    step that a GradScaler skips because of infinite gradients is normal and no finding; a loss
    that is already bad is one, skipped or not.

Why it matters:
    One such step without a skip makes every weight NaN, and everything after it is lost.

Evidence:
    The losses, and where the bad values begin: a parameter or buffer that was not finite before
    the step, an input of the model, or the first operation in the order of the forward pass
    whose saved values are not finite, with the parameter that its value passed last. It is told
    once; what follows is counted in the coverage until a step is finite again.

What to do:
    A bad input: look at the batch. A parameter or buffer: find what wrote it, and go back to a
    checkpoint from before. An operation: `sqrt`, `log`, a division or a power at the edge of
    its domain wants an epsilon inside it; an overflow in float16 wants bfloat16 or float32
    there.

Known false alarms:
    A loop that computes a non-finite loss on purpose and throws the step away by itself, after
    calling `backward`.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM501",
    slug="loss-nonfinite",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Go back to a checkpoint from before this step; mend what is named as its origin.",
    doc=__doc__,
)
