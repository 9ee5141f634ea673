"""A file lies beside sealed ones and is not in the manifest.

What:
    The whole folder was sealed, and holds a model file that the manifest does not list; or a
    signing bundle (`model.sig`) does not list it. Where only single files were sealed, others
    beside them are no finding.

Why it matters:
    Nothing is known about that file; a loader that globs the folder will use it.

Evidence:
    The path and size.

What to do:
    Find out where it came from. Seal again, or move it away.

Known false alarms:
    Files added after sealing on purpose. Only files under a model's suffix are reported; notes
    and logs are not.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL109",
    slug="file-unsealed",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Seal the folder again if the file belongs to it; remove it otherwise.",
    doc=__doc__,
)
