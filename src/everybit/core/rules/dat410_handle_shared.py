"""A file handle or connection was inherited by forked workers.

What:
    The dataset held an open file when several workers were forked, and they read through it; or it
    held a socket or a database connection.

Why it matters:
    Forked processes share one position in the file. One worker's seek moves another one's read:
    samples come with other samples' bytes, now and then, as the timing goes.

Evidence:
    Where the dataset holds it, the name of the file, and the number of workers. Two workers at
    least still held it behind their first batches, and nothing of their own on the same file; the
    position that all share was seen to move.

What to do:
    Open the file in the worker, on the first read. Or read with `os.pread` or from a memory map,
    which have no position.

Known false alarms:
    Workers that keep the file and do not read it, while the process that made them does: the
    position moves by its reads alone. That is why it is a warning. Connections that no worker
    uses: those findings are of certainty `weak`. Workers that open the file anew are none.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT410",
    slug="handle-shared",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Open files and connections in the worker, on the first read.",
    doc=__doc__,
)
