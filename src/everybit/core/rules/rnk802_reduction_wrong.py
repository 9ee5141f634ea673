"""The reduced gradient is not the reduction of what the ranks sent.

What:
    After the collective the reduced gradient must be the same on all ranks, which is compared at
    every checked step. On some steps each rank also sums up its own gradients before it, in
    float64, in signed blocks, and the sums of what comes out must be the mean of those sums within
    the rounding of the reduction.

Why it matters:
    The update follows a gradient that no rank computed, or the ranks follow several. Replay of
    each rank's own step is exact and does not see it.

Evidence:
    The parameter or bucket, the ranks whose copy differs, the sum expected and found, and the
    bound on rounding that it exceeds.

What to do:
    Ranks that differ point at the named rank's device or memory; a sum that is wrong on all
    ranks alike points at the collective: network, library, or the device that reduced.

Known false alarms:
    Communication hooks that compress on purpose: they are told apart and reported as not
    checked.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="RNK802",
    slug="reduction-wrong",
    severity=Severity.ERROR,
    certainty=Certainty.STRONG,
    remedy="Take the step's gradients for wrong. Test the network and the named ranks' devices.",
    doc=__doc__,
)
