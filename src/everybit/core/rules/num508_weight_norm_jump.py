"""The norm of a parameter moved as no update explains (a sensor).

What:
    One update changed the norm of a matrix to less than half or more than twice, and ten times
    as much as any update of late. Or values were written between two updates whose norm is
    three times off, or which have nothing to do with those before (cosine below 0.2). A
    parameter that becomes non-finite from finite gradients is an `error` with `proof`.

Why it matters:
    A learning rate that exploded, a checkpoint of another run loaded over this one, and a layer
    initialised anew in mid-run look like this.

Evidence:
    Norm before and after, the largest change of late, gradient norm and learning rates, the
    cosine of a sample where values were replaced, how many parameters are concerned.

What to do:
    Look at what was loaded, and at the learning rate of the step.

Known false alarms:
    Layers that are initialised anew on purpose, members of a population that take over others'
    weights: announce that with `guard.phase`. Loading an earlier checkpoint of the same run is
    none.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM508",
    slug="weight-norm-jump",
    severity=Severity.WARNING,
    certainty=Certainty.WEAK,
    remedy="Look at what was loaded or which learning rate was set at this step.",
    doc=__doc__,
)
