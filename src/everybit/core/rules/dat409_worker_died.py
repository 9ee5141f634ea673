"""A worker ended, and the order after it is not proven.

What:
    A DataLoader's worker process ended while batches that it had been asked for were still to come:
    by a signal (out of memory, a crash in native code), or by an exit of its own.

Why it matters:
    Torch ends the pass with an error. A program that catches it and begins anew sees some samples
    twice and others never, and its workers draw other random numbers than before.

Evidence:
    Loader and epoch, which worker and how it ended, how many batches were delivered before and how
    many are lost with it.

What to do:
    Look for the out-of-memory killer in the system's log, and for native code in the data set. Go
    on from a checkpoint with the position in it (`guard.state_dict()`), not with a new pass.

Known false alarms:
    None: workers that end with their loader, and errors that a data set raises, are not told here.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT409",
    slug="worker-died",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Find out what ended the worker; go on from a checkpoint that holds the loader's "
    "position.",
    doc=__doc__,
)
