"""The loss is far outside its own recent band (a sensor).

What:
    The loss of a step is more than ten times its moving average, or its robust z (median and
    median absolute deviation over 64 steps) is above 6 and it is more than twice as far out as
    anything in that window. In the first steps after a resume (`guard.load_state_dict`) the loss is
    held against the band from before it, and one far below it is told, too.

Why it matters:
    A bad batch, a wrong learning rate and a miscomputed step all look like this. It is a
    sensor: it says where to look, and proves nothing.

Evidence:
    The loss, median, spread and moving average of the window, robust z, gradient norm and
    learning rates. What a first step is measured against is forgotten when a checkpoint is
    loaded, when a learning rate jumps, and at `guard.phase`.

What to do:
    Compare the step with that of another run of the same seed (`everybit diff`): a bad batch
    gives the same loss again, a machine that miscomputes does not.

Known false alarms:
    Every real shift of the data: announce it with `guard.phase`. No false alarm in 40 clean
    runs of six kinds of model.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM503",
    slug="loss-spike",
    severity=Severity.WARNING,
    certainty=Certainty.WEAK,
    remedy="Run the same steps again and compare with `everybit diff`; announce new data with "
    "guard.phase().",
    doc=__doc__,
)
