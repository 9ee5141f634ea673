"""An archive or a stream is shaped so that scanners and loaders see different things.

What:
    Something about the container, not about what its pickles call. Records of an archive disagree
    or two members share a name, so that two readers take two things out of one file. Flag bits or
    a compression method make some readers stop and others not. Bytes lie before, between or behind
    what the records cover. A name or a link leads out of the folder. A stream grows without end.
    A pickle stands under the name of a format that runs no code. Or something cannot be looked
    into at all, and so nobody can say what it does.

Why it matters:
    Each of these has been used to walk a pickle past a scanner and into a loader. A file that a
    plain save wrote has none of them.

Evidence:
    `trick`: which kind it is. The members, the records as read, and the place in the file.

What to do:
    Do not load it. Ask its author for a file that a plain save wrote, or for safetensors. What
    cannot be looked into: unpack it, or install what reads it, and scan what comes out.

Known false alarms:
    Damage may look the same: `everybit verify` tells which. Tools that repack archives leave
    bytes behind the end or another compression; that is a `warning` here, and an `error` is only
    what no honest tool does. Arrays of zeros compress as far as a bomb does.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="PKL203",
    slug="scanner-evasion",
    severity=Severity.ERROR,
    certainty=Certainty.STRONG,
    remedy="Do not load it; ask its author for a file that a plain save wrote.",
    doc=__doc__,
)
