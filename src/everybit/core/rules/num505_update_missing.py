"""A gradient arrived and the parameter did not move, or it moved without one.

What:
    The bits of a parameter were the same before and after an update although it had a gradient
    and a learning rate, and the optimizer's own formula says that it had to move; or torch's
    optimizer moved a parameter that had no gradient. Under an optimizer whose formula is not
    known here: it has not moved for eight updates, and others of its group have. Also: the
    learning rate of one group fell to zero from one step to the next while others' did not; and
    a parameter of the model gets gradients while the optimizer holds another tensor of its
    shape that the model does not.

Why it matters:
    A parameter that does not move is not trained, and the loss may still look fine.

Evidence:
    The parameter, the step since when, how large its update should have been in units of the
    spacing of its values, and how many parameters are concerned.

What to do:
    A tensor that took the place of a parameter after the optimizer was built: build the
    optimizer afterwards. A group whose learning rate is zero: look at the schedule. Otherwise
    look for code that puts old values back.

Known false alarms:
    Zero gradients, learning rates that have been zero all along, warm-up from zero, updates
    that rounding eats (small learning rates with bfloat16 weights), frozen and rarely used
    parameters are none. A hook that restores values after each update on purpose is one.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM505",
    slug="update-missing",
    severity=Severity.ERROR,
    certainty=Certainty.STRONG,
    remedy="Build the optimizer after the last change of the model; look at the learning rate "
    "of the group.",
    doc=__doc__,
)
