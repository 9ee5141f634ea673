"""The manifest, or a signing bundle, does not hold, or is not signed as demanded.

What:
    `MANIFEST.everybit.json` carries a digest of its own content; the content does not give it,
    or it cannot be read at all. Or a key was given (`--key`), and the manifest's signature is
    missing, another key's, or of other bytes. The same for a signing bundle (`model.sig`).

Why it matters:
    A damaged manifest could call damaged files whole, or whole files damaged. One that is not
    signed may be written by whoever wrote the files.

Evidence:
    What failed: parsing, the digest, a field, or the signature; `key_id` of the key that was
    given, `signed_by` as the signature names it.

What to do:
    Copy the manifest from where the folder was sealed. Never edit one by hand.

Known false alarms:
    A hand-edited manifest. A folder that was sealed again without `--sign`.
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
