"""Two maps from labels to numbers contradict each other.

What:
    Datasets of one run, of two ranks, or of an attempt and the one before give the same label
    another number.

Why it matters:
    A map made from `os.listdir` or from a `set` depends on the machine and the process. The model
    learns class 3 as cats on one rank and as dogs on the other, or is evaluated by another list
    than it was trained by.

Evidence:
    Whose maps they are, the attribute, and the labels with both numbers.

What to do:
    Sort the labels before they are numbered, write the map to a file once, and give all datasets
    the same.

Known false alarms:
    Datasets of different tasks whose labels share names. A map that knows fewer labels is no
    contradiction.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT414",
    slug="label-map-differs",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Sort labels before they are numbered, and give every dataset the same map.",
    doc=__doc__,
)
