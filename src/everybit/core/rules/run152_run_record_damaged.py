"""A run's own record is damaged.

What:
    A frame of the log, or `run.json`, fails its checksum or does not follow from the frame
    before it.

Why it matters:
    What a damaged record says about the run cannot be relied on. The disk that damaged it also
    holds the checkpoints.

Evidence:
    The file, the byte range that is damaged, and the steps before and after it that are still
    intact.

What to do:
    Copy the folder again where it was copied. Verify the checkpoints on the same disk.

Known false alarms:
    None known for damage in the middle. A torn last frame after a kill is no damage; RUN151
    tells of it.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="RUN152",
    slug="run-record-damaged",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Trust only the steps named as intact; find out what damaged the file.",
    doc=__doc__,
)
