"""A version is known to give wrong results without an error.

What:
    A library's version lies in the range of a known issue, and everything that the record tells
    of its conditions (device, compute capability, instruction sets, flags) holds.

Why it matters:
    The result is wrong, not rounded, and nothing says so. Two machines of which only one has that
    version give two answers.

Evidence:
    The issue, the library and its version, the range, the version that has the fix where one is
    known, the operations and dtypes concerned, and the source.

What to do:
    Install another version, or do what the source tells to avoid it. Where none of the operations
    named is used, nothing is wrong.

Known false alarms:
    Whether a program uses the operation in question is not on record, so this is a warning, and a
    note where a condition could not be read.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="ENV903",
    slug="known-wrong-result-issue",
    severity=Severity.WARNING,
    certainty=Certainty.WEAK,
    remedy="Install another version, or avoid the operation as the source tells.",
    doc=__doc__,
)
