"""Two runs or files hold different values.

What:
    The digests of the same value (the same step and link of two runs, the same tensor of two
    files) are not equal; this is the first in causal order.

Why it matters:
    Everything after the first difference follows from it. Its place tells data from
    initialisation, randomness, arithmetic and memory.

Evidence:
    The place, both digests, how many values of the same link and step differ, and a kind as far
    as the evidence goes (else `unknown`).

What to do:
    Look at the place and what precedes it: `explained_by` lists differences of environment,
    code and configuration.

Known false alarms:
    Runs that were never meant to be equal: another seed, other data. The first difference then
    is the seed's or the data's, and says so.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DIF181",
    slug="values-part",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Look at the first value that parts: everything after it follows from it.",
    doc=__doc__,
)
