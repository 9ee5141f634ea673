"""A file is shorter than its own structure or its manifest says.

What:
    The header, index, archive directory or manifest promises more bytes than the file has.

Why it matters:
    A save that was killed, a copy that was cut, a disk that filled up. The error that PyTorch
    raises for it depends on where the cut fell and often names something else.

Evidence:
    `size_bytes` found, `expected_bytes`, and what promised them. Tensors that lie wholly before
    the cut are named as readable.

What to do:
    Copy the file again, or go back to the newest whole checkpoint.

Known false alarms:
    None known: a format that is cut cannot be read whole.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL104",
    slug="file-truncated",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Copy the file again: the end is missing.",
    doc=__doc__,
)
