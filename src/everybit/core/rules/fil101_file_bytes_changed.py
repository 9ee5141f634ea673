"""A sealed file's bytes differ, outside any tensor.

What:
    The file's digest is not the one in its manifest, and the bytes that changed belong to no
    tensor: a header, padding, a pickle record, an archive directory, or a file that is no model
    at all. Or a file that is not sealed does not have the digest that a list beside it
    (`SHA256SUMS`), a signing bundle, its name in a cache, or `--expect-sha256` gives.

Why it matters:
    The tensors may be whole, but names, shapes or settings around them are not what was sealed.

Evidence:
    `expected` and `found` digests of the file, the changed `byte_ranges` at the resolution of
    the manifest's leaves (64 KiB, or exact where one flipped bit explains the change). Where
    others gave the digest: `expected_by` whom.

What to do:
    Copy the file again from its source. If the change was intended, seal the folder again.

Known false alarms:
    A file rewritten on purpose (an edited JSON, a re-saved container). A re-saved container
    with equal tensors says so in its evidence.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL101",
    slug="file-bytes-changed",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Fetch the file again from where it was sealed, and verify again.",
    doc=__doc__,
)
