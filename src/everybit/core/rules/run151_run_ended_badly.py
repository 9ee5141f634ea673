"""A run did not end cleanly.

What:
    The run's log ends with an exception, a signal or a non-zero exit code, or has no end record
    at all: the process was killed, ran out of memory, or the machine went down.

Why it matters:
    What the run reported last may not be what it had saved; a checkpoint being written at that
    moment may be cut.

Evidence:
    The end record, or its absence with the last step on record and whether the last frame is
    torn.

What to do:
    No end record and no error in the job's own output: look for the out-of-memory killer
    (`dmesg`), a scheduler's time limit, a power cut.

Known false alarms:
    A run that is still going has no end record yet. The process id on record, where it is alive
    on the same boot of the same machine, says so.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="RUN151",
    slug="run-ended-badly",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Read the reason; resume from the last sealed checkpoint.",
    doc=__doc__,
)
