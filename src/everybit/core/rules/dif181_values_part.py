"""Two runs or files hold different values.

What:
    The same value (of the same step and link of two runs, the same tensor of two files) has other
    bits; this is the first in causal order, or the gravest of two files. Of two folders, a file
    that is missing or has other bytes.

Why it matters:
    Everything after the first difference follows from it. Its place tells data from
    initialisation, randomness, arithmetic and memory. Of two files, the class tells damage from a
    conversion, a training step, or another model.

Evidence:
    The place, both digests, how many values of the same link and step differ, and a kind as far
    as the evidence goes (else `unknown`). Of files: `class`, `meaning`, and what the class stands
    on (`bits`, `ulp`, `factor`, `permutation`, `partner`, `rounded_to`...).

What to do:
    Look at the place and what precedes it: `explained_by` lists differences of environment,
    code and configuration. Of files, do what the class says.

Known false alarms:
    Runs that were never meant to be equal: another seed, other data. The first difference then
    is the seed's or the data's, and says so. Files of two steps: the class is `training step`.
    Rounding to another dtype that accounts for every bit is a warning, a wider dtype with equal
    values a note.
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
