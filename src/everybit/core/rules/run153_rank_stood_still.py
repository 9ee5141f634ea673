"""A rank's process stood still for a while.

What:
    Between two looks at the clock a rank's process used no processor time, for longer than
    `patience_s`: it was stopped by a signal, frozen with its container or virtual machine, or got
    no processor.

Why it matters:
    All other ranks waited for it in their next collective. A job that is slow now and then, or
    that ends in a time-out of a collective, is explained by it; so is an agreement of the ranks
    that did not come about.

Evidence:
    The seconds that went by, and the step that the rank was at. A thread of the guard looks at the
    clock once a second.

What to do:
    Look for what stopped the process at that time: a scheduler that suspends jobs, memory that
    was swapped out, a machine that migrates, more processes than cores.

Known false alarms:
    A call that keeps the interpreter from running other threads and waits without computing, for
    all of that time, looks the same.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="RUN153",
    slug="rank-stood-still",
    severity=Severity.NOTE,
    certainty=Certainty.STRONG,
    remedy="Look for what stopped the process: its scheduler, its container, swapped memory.",
    doc=__doc__,
)
