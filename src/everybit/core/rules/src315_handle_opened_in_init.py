"""A file handle opened in a dataset's constructor is read in every worker.

What:
    A file, HDF5, LMDB, SQLite, zip or tar handle is opened in a dataset's `__init__`, kept on the
    object, and read where samples are made.

Why it matters:
    Forked workers share the open file, and with it one file offset: two workers that seek and
    read at the same time get each other's bytes. Measured: 8 to 1,020 wrong samples of 10,000,
    without an error. HDF5, LMDB and SQLite forbid the use of a handle across a fork.

Evidence:
    The class, the attribute, the call that opens it, the method that reads it, and the number of
    workers as far as a DataLoader is in sight.

What to do:
    Keep the path and open the file where it is first read, in the worker (`if self._file is
    None`). Or read it whole, or map it (`numpy.load(..., mmap_mode="r")`).

Known false alarms:
    A dataset that is never given to a DataLoader with workers, or workers that are started by
    `spawn` with a handle that can be pickled; where no DataLoader is in sight the finding is a
    `note`. Nothing is said where every DataLoader in sight has no workers, or where the class
    opens the handle again in the worker.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC315",
    slug="handle-opened-in-init",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Open the file where it is first read, inside the worker.",
    doc=__doc__,
)
