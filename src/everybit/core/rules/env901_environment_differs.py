"""Two environments differ.

What:
    An entry of the environment record (a package version, a package's RECORD digest, a driver,
    a flag, a thread count, a variable) has different values.

Why it matters:
    Another kernel, thread count or library build gives other rounding, and now and then wrong
    results. Same version, other RECORD digest: an installer swapped the build.

Evidence:
    The entry, and both values.

What to do:
    Align what can be aligned, or expect differences at rounding level and judge them so.

Known false alarms:
    Entries that do not bear on numbers, such as host names; they are recorded and not compared.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="ENV901",
    slug="environment-differs",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Align the named entries if the runs should agree bit for bit.",
    doc=__doc__,
)
