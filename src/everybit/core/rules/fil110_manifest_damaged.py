"""The manifest itself does not hold.

What:
    `MANIFEST.everybit.json` carries a digest of its own content; the content does not give it,
    or it cannot be read at all.

Why it matters:
    A damaged manifest could call damaged files whole, or whole files damaged.

Evidence:
    What failed: parsing, the digest, or a field.

What to do:
    Copy the manifest from where the folder was sealed. Never edit one by hand.

Known false alarms:
    A hand-edited manifest.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL110",
    slug="manifest-damaged",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Restore the manifest from its source; nothing can be concluded from this one.",
    doc=__doc__,
)
