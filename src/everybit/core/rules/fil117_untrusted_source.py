"""A trust policy asks for an origin that this file has not.

What:
    `verify --trust POLICY` holds every sealed file and every model against a policy. This one has
    no recorded source, a source or a licence that is not among those allowed, or a seal that no
    allowed publisher signed; and its digest is not one that the policy names.

Why it matters:
    Whole files can be the wrong files. A model whose origin nobody recorded cannot be traced when
    it turns out to be poisoned, and one without a known licence may not be shipped.

Evidence:
    What is missing, the source and licence recorded, whose signature holds, and the file's digests
    where the policy names digests.

What to do:
    Find out where the file comes from. Then seal it with that (`everybit seal --source URL
    --license ID --sign KEY`), ask its publisher to sign it, or add its digest to the policy.

Known false alarms:
    None: it says what the policy asks for. A source in a manifest that nobody signed is a claim.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL117",
    slug="untrusted-source",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Find out where it comes from, and seal it with that: `everybit seal --source URL`.",
    doc=__doc__,
)
