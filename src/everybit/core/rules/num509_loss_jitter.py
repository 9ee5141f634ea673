"""The loss jumps a little at a regular period (a sensor).

What:
    Eight times in a row and at one and the same distance of steps, the loss was above both its
    neighbours by far more than is usual, each time by about as much.

Why it matters:
    One faulty worker, core or buffer that takes its turn gives such a rhythm; so does one shard
    of bad data.

Evidence:
    The period, the number and size of the jumps, and the correlation of the losses in between
    from period to period.

What to do:
    Find what has that period: the number of workers, of ranks, of gradient accumulation steps,
    of buffers in a ring.

Known false alarms:
    Data in a fixed order repeat their losses with the epoch: that is told apart by the losses
    in between. A task that takes its turn every few steps is one.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="NUM509",
    slug="loss-jitter",
    severity=Severity.WARNING,
    certainty=Certainty.WEAK,
    remedy="Find what takes its turn with this period: workers, ranks, buffers, shards.",
    doc=__doc__,
)
