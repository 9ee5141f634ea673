"""A checkpoint's size departs from its siblings'.

What:
    Of several checkpoints of one run, one file is clearly smaller or larger than the same file of
    the others, which agree among themselves.

Why it matters:
    A save that ended early, or saved a part only, can be a valid file: its structure is whole, its
    checksums hold, and what is missing is missed at the resume.

Evidence:
    The file, its size, the usual size, and the tensors that it lacks where they can be read.

What to do:
    Resume from the sibling that the verdict calls the newest whole one.

Known false alarms:
    A change of what the run saves from one checkpoint on. The first save, before the optimizer has
    any state, and adapters beside full models are not compared.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL111",
    slug="size-anomaly",
    severity=Severity.WARNING,
    certainty=Certainty.WEAK,
    remedy="Resume from the newest whole sibling.",
    doc=__doc__,
)
