"""A load that is refused is tried again without protection.

What:
    A `try` holds a load that runs nothing, and what follows its failure loads the same thing
    unsafely: `weights_only=False`, pickle, `allow_pickle=True`, `trust_remote_code=True`. The
    second load stands in the `except`, after it where the handler only passes, or is the next turn
    of a loop over `(True, False)`.

Why it matters:
    The refusal was the protection. A file that wants to run code makes the first load fail, which
    takes one byte, and is then run by the second. The code is as unsafe as without the `try`, and
    looks safe.

Evidence:
    The first load and the one that follows its failure.

What to do:
    Let the error stand, and say how to get the file through: `everybit scan FILE` names what is
    refused, `everybit convert` takes it out of pickle. For old versions without the argument catch
    `TypeError` alone and load without it.

Known false alarms:
    None known. A fallback that is as safe as the first load is not reported.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC311",
    slug="unsafe-fallback",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy=(
        "Let the refusal stand; `everybit scan` names what is refused and `everybit convert` "
        "takes the file out of pickle."
    ),
    doc=__doc__,
)
