"""A sealed or indexed file is not there.

What:
    A manifest, an index, the `.metadata` of DCP or a pointer (`latest`) lists a file which the
    folder does not hold; or the newest of several checkpoints lacks a part that all its siblings
    have, which is a warning.

Why it matters:
    A sharded model with one shard missing loads partly, or not at all, and some loaders fill
    the gap with fresh random weights.

Evidence:
    The path as the manifest lists it, and the size it should have.

What to do:
    Copy the file again. If it was removed on purpose, seal the folder again.

Known false alarms:
    A manifest moved without its files. A last checkpoint that was saved without its optimizer on
    purpose.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL103",
    slug="file-missing",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Copy the missing file from its source.",
    doc=__doc__,
)
