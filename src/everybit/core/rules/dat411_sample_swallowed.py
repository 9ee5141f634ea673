"""A sample was swallowed: another came in its place, or none.

What:
    `__getitem__` was asked for one sample and handed on another one's, as code does that catches
    an error and takes the next; or it gave None, which collate left out; or an image file that
    ends too early was let through.

Why it matters:
    Damaged files stay unknown, some samples count twice, labels may be another image's. Where a
    disk fails, the number of such samples grows and nobody is told.

Evidence:
    Which sample was asked for and which was given; or the samples that gave nothing; or the files;
    or samples that came as another one's byte for byte, where the code handles exceptions.

What to do:
    Let the error through once and look at the files that are named. Leave damaged samples out of
    the list before the run.

Known false alarms:
    A dataset that leaves samples out on purpose. One that holds the same sample twice and handles
    exceptions: that kind has certainty `weak`.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT411",
    slug="sample-swallowed",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Look at the samples that are named, and leave damaged ones out before the run.",
    doc=__doc__,
)
