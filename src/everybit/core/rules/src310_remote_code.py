"""Code of a repository is downloaded and run.

What:
    `trust_remote_code=True` is given to a loader (Transformers, Datasets, sentence-transformers
    and others), or `torch.hub.load`, `help` or `list` runs the `hubconf.py` of a GitHub repository.
    One commit, named in full (40 hex digits) as `revision`, `code_revision` or after the colon of
    the repository, and `source="local"`, are not reported.

Why it matters:
    The code runs with your rights, and it is whatever the repository holds at that moment: a
    branch or a tag can be moved, an account taken over.

Evidence:
    The loader, the repository where it is constant, and the revision it asks for.

What to do:
    Read the code, then name the commit that you read: `revision="<40 hex digits>"`, or
    `"owner/repo:<40 hex digits>"` for torch.hub. Or keep a copy of the code in your project.

Known false alarms:
    Repositories of your own. Name the commit all the same. A flag or parameter that is off unless
    somebody asks for it is not reported.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC310",
    slug="remote-code",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Read the code, then name the commit that you read in full as the revision.",
    doc=__doc__,
)
