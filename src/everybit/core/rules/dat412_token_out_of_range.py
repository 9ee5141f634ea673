"""Token ids lie outside of the vocabulary, or were kept in a type too narrow for it.

What:
    A model was given ids that its embedding has no row for, and the call failed; or the array of
    ids has a type that cannot hold the vocabulary; or every second id is zero, as when words of 32
    bits are read as 16.

Why it matters:
    An id of 70,000 kept as `uint16` is 4,464, another word, and no error is raised: the model
    learns from text that nobody wrote.

Evidence:
    The input, its lowest and highest id, the embedding and its rows, the array and its type.

What to do:
    Write ids as `uint32` where the vocabulary has more than 65,536 entries (`int16` ends at
    32,767), read them with the type they were written with, and tokenise again.

Known false alarms:
    A narrow array beside ids that come from somewhere else. Without negative ids the finding on a
    narrow type is a `warning`. A blank or padding id between all others is no finding where it
    comes first in each row, or where the data set holds its ids in words of 64 bits: the coverage
    says so.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT412",
    slug="token-out-of-range",
    severity=Severity.ERROR,
    certainty=Certainty.STRONG,
    remedy="Write token ids in a type that holds the whole vocabulary, and read them with"
    " the same type.",
    doc=__doc__,
)
