"""An operation gives other bits each time, by design: no corruption.

What:
    A call was repeated several times from the same inputs, and the repeats differ among
    themselves. `index_put` with accumulation, scatter additions and some backward passes add up
    in the order in which threads happen to come.

Why it matters:
    Nothing is broken. But two runs of the same seed part here, and replay cannot tell a fault
    from this noise in what depends on it.

Evidence:
    The module and the operation, how many of how many repeats differ, and how far.

What to do:
    `torch.use_deterministic_algorithms(True)` makes most of these repeat, at a cost;
    `torch.set_num_threads(1)` does on the CPU. `everybit run --preflight` names them all before
    the run.

Known false alarms:
    A device that errs in every repeat in another way looks the same. Another device tells the
    two apart.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="CMP703",
    slug="nondeterministic-op",
    severity=Severity.NOTE,
    certainty=Certainty.STRONG,
    remedy="Where the same bits are wanted each time: torch.use_deterministic_algorithms(True), or "
    "one thread; else leave it, replay skips what it cannot judge.",
    doc=__doc__,
)
