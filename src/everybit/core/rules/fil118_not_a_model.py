"""Something else lies under a model's name.

What:
    The content is no model format that everybit knows: an empty file, text, a web page, a
    git-LFS pointer.

Why it matters:
    `torch.load` answers such a file with advice to set `weights_only=False`, which is wrong and
    unsafe.

Evidence:
    The first bytes, and what they look like.

What to do:
    A git-LFS pointer: `git lfs pull`. A web page: the download needed a login or another
    address. An empty file: the save or the copy was cut.

Known false alarms:
    A model format that this release does not read yet.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL118",
    slug="not-a-model",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Download the real file; see what is in this one.",
    doc=__doc__,
)
