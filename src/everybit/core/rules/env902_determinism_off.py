"""Two runs were compared that were not asked to repeat.

What:
    Both runs, or one of them, ran without deterministic algorithms.

Why it matters:
    Some operations then give other bits each time, by design: sums with atomics on a GPU,
    accumulating index writes, the fastest convolution of the day. Where such runs part, the first
    difference may be no more than that.

Evidence:
    The flags of both sides.

What to do:
    Run both with everybit.seed_everything(seed, deterministic="strict"), then compare again.

Known false alarms:
    A model with no such operation repeats all the same; on the CPU most do. So this is a note.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="ENV902",
    slug="determinism-off",
    severity=Severity.NOTE,
    certainty=Certainty.PROOF,
    remedy='Run both with everybit.seed_everything(seed, deterministic="strict") and compare.',
    doc=__doc__,
)
