"""The same sample holds other bytes than when it was first read.

What:
    A sample that was read again under the same index holds other bytes, though no random stream
    was drawn from, then or now.

Why it matters:
    Something writes the data: an operation in place on the dataset's own memory, a cache that was
    poisoned, a file that changed under the run, memory or a disk that does not keep its bits.

Evidence:
    The samples, the part of them that changed, how many were read again, and arrays of the
    dataset that were written while samples were read.

What to do:
    Read the sample again from its file. Copy before operations in place (`x = x / 255`, not
    `x /= 255`).

Known false alarms:
    What the loop sets in its dataset between batches (an array, an object, an attribute such as an
    epoch) may be what a sample follows from: the coverage says so, and it is no finding, unless the
    sample stays as it is by then while the attribute is set on. Nor is a cache that gives back
    values of fewer bits. Where many samples differ and nothing was seen to write them, the reading
    itself may be random: the coverage says so. What is left is a warning: a stream that cannot be
    seen may be drawn from for a few samples only, and what the loop sets from another process, or
    deep within an object, is not seen.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT406",
    slug="sample-changed",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Read the sample again from its source, and look for operations in place on it.",
    doc=__doc__,
)
