"""Gradients are NaN or infinite, and the update is not skipped.

What:
    The gradients that an optimizer is about to use hold NaN or infinity, the loss was finite,
    and no GradScaler skips the step.

Why it matters:
    The update makes the weights NaN; with Adam its moments too.

Evidence:
    The parameter whose gradient went bad first: the backward pass runs from the loss to the
    input, so that is the last one in the order of the model; its nearest finite neighbour; how
    many gradients are bad. On the CPU it is told before the update.

What to do:
    The operation lies between the parameter named and its finite neighbour. A usual cause is
    `torch.where(x > 0, x.sqrt(), 0)`: the branch not taken has an infinite slope, and zero
    times infinity is NaN; mask before the root, not after it. In float16 without a GradScaler:
    use one.

Known false alarms:
    A loop that looks at the gradients itself and then calls `step` on them knowingly, or
    optimizers that skip such a step on their own (DeepSpeed, Apex): their weights stay finite.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM502",
    slug="gradient-nonfinite",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Mask before the operation, not after it; use a GradScaler with float16; go back to "
    "a checkpoint.",
    doc=__doc__,
)
