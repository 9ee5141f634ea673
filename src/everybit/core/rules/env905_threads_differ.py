"""The two sides compute with other numbers of threads.

What:
    The number of threads, or a variable that sets it, differs.

Why it matters:
    Sums are cut into one part a thread, so another number of threads adds in another order: about
    1e-7 of a float32 value, in most tensors within two steps, and growing as training goes on.

Evidence:
    The entry and both values.

What to do:
    Set the same number on both sides: OMP_NUM_THREADS, torch.set_num_threads.

Known false alarms:
    A program that computes on a GPU alone. The entry differs; whether it matters is not on record.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="ENV905",
    slug="threads-differ",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Set the same number of threads on both sides (OMP_NUM_THREADS).",
    doc=__doc__,
)
