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
    A program that changes its data on purpose: a loop that writes into what the dataset holds, a
    dataset that follows an attribute which the loop sets (its epoch, say). That is why it is a
    warning. A stream that cannot be seen, drawn from for a few samples only. Where many samples
    differ and nothing was seen to write them, the reading itself may be random: that is no finding,
    and the coverage says so.
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
