"""A file's structure cannot be right.

What:
    A header, an archive directory, a pickle record or an index contradicts itself or the file:
    lengths, overlaps, duplicates, dtype sizes.

Why it matters:
    What a damaged structure points at is not what was saved; loaders may read other bytes
    without noticing.

Evidence:
    What was read, where (byte range, member), and why it cannot be.

What to do:
    Copy the file again. If it was written like this, the writer is broken.

Known false alarms:
    Formats newer than this release. The message then names the version or field that is not
    known.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL107",
    slug="structure-damaged",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Do not load the file; copy it again from its source.",
    doc=__doc__,
)
