"""A comment hides findings and does not say which, or why.

What:
    A comment `# everybit: ignore[...]` names a rule without a reason behind it, names something
    that is no rule of `lint`'s, or names no rule at all. A rule hides its finding all the same;
    what is no rule hides nothing.

Why it matters:
    Who reads the code next cannot tell a decision from a leftover: whether the load is of a file
    that the job itself has written, or was only in the way of a release.

Evidence:
    The comment.

What to do:
    Write after the bracket why the finding does not matter here, in a few words:
    `# everybit: ignore[SRC302] written by this job itself, in this folder`.

Known false alarms:
    None known.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC317",
    slug="suppression-unexplained",
    severity=Severity.NOTE,
    certainty=Certainty.PROOF,
    remedy="Write the rule and the reason: `# everybit: ignore[SRC301] reason`.",
    doc=__doc__,
)
