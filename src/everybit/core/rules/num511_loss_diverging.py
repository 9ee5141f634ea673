"""The loss grows without bound (a sensor).

What:
    The loss has been above ten times the level it began at for three steps in a row, and goes
    on rising, and the weights moved by 5 % of their length or more meanwhile: a loss that grows
    with its inputs, which come sorted, is none. Where several optimizers take turns, as in a GAN:
    a hundred times.

Why it matters:
    It ends in NaN, or in a model that is worse than none.

Evidence:
    The first step above the limit, the level at the beginning, how far the weights moved since
    (`weights_moved`, of their own length; null where updates were not measured), learning rates,
    and the step at which a learning rate jumped up where one did.

What to do:
    Lower the learning rate, warm up, clip gradients.

Known false alarms:
    Losses that measure something that may grow (returns, critics' scores).
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM511",
    slug="loss-diverging",
    severity=Severity.WARNING,
    certainty=Certainty.WEAK,
    remedy="Lower the learning rate or clip gradients; go back to a checkpoint from before the "
    "first step named.",
    doc=__doc__,
)
