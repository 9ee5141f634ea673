"""Inputs and labels are paired otherwise than in the dataset.

What:
    In a batch the labels lie in another order than the inputs, against the samples that it was
    collated of; or the same input came with another label than when first read; or all labels are
    those of the next sample in the dataset's own list.

Why it matters:
    All bytes are right and the pairs are wrong: the model learns noise, the loss stops early at
    what guessing gives.

Evidence:
    The part that is steady, the part that went astray, by how much it is rolled, rows and samples.

What to do:
    Sort, shuffle and filter inputs and labels together. Index both with the same number.

Known false alarms:
    Labels that are renewed on purpose, as pseudo-labels are, are no finding: what tells of one is
    that labels are each other's, in another order (at least 35 % of them), or that a few are others
    and the loop set nothing. Changed and shifted labels are a `warning` of certainty `strong`. A
    collate function that reorders inputs and labels alike is no fault.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT413",
    slug="pairing-broken",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Sort, shuffle and index inputs and labels together.",
    doc=__doc__,
)
