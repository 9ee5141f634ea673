"""Something else lies under a model's name.

What:
    The content is no model format that everybit knows: an empty file, zeros, text, a web page, a
    server's error message, a git-LFS pointer, a compressed file, an archive of models. As a
    warning: a whole model under an ending whose loaders do not take it.

Why it matters:
    `torch.load` answers such a file with advice to set `weights_only=False`, which is wrong and
    unsafe.

Evidence:
    The first bytes, and what they look like; of an archive or a compressed file what is in it.

What to do:
    A git-LFS pointer: `git lfs pull`. A web page or an error message: the download needed a login
    or another address. An empty file: the save or the copy was cut. A compressed file or an
    archive: unpack it. A wrong ending: rename the file.

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
