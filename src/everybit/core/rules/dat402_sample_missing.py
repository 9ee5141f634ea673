"""A sample of the epoch never reached the model.

What:
    An epoch came to its end, and samples that its sampler promises were not among the batches; or a
    batch was asked of a worker and never delivered.

Why it matters:
    What is left out is not learned, or not counted: an evaluation over 9,990 of 10,000 samples
    gives another figure, and says nothing.

Evidence:
    Loader and epoch, how many samples were promised and how many are missing, the first of their
    keys, and how many were lost to errors that the loop swallowed.

What to do:
    Look for errors that are caught around the loop, for a sampler that ends early, and for a data
    set whose length changes. Where samples cannot be read, say so and count them.

Known false alarms:
    None: an epoch that the loop broke off, the samples that `drop_last` leaves out, replacement,
    and samplers of the program's own are no findings.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT402",
    slug="sample-missing",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Find out where the samples were lost: an error that was caught, a sampler that ends "
    "early, a data set that shrank.",
    doc=__doc__,
)
