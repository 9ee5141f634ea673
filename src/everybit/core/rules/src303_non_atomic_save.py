"""A checkpoint is written over the one before it, so a killed save leaves neither.

What:
    `torch.save` writes to a name that stays the same from save to save: a constant inside a loop,
    or a name that says so (`latest`, `last`, `best`). The function neither writes under another
    name first nor renames. Saves to names with a step or an epoch, to names the caller chooses, to
    memory, and in tests are not reported.

Why it matters:
    `torch.save` empties the file before it writes. A process that is killed meanwhile (time limit,
    out of memory, full disk, pre-emption) leaves half a file where the last good one was: 12 of 12
    trials lost it; with a temporary name and a rename none of 12.

Evidence:
    The name, and whether the save stands in a loop and the name is loaded again.

What to do:
    Save to a temporary name in the same folder, then `os.replace(temporary, final)`. Or keep two
    names in turn.

Known false alarms:
    A file system that keeps versions, or a sidecar that copies the file away after every save. The
    rule is a `note`, and a `warning` only where the same function saves the name in a loop and the
    file resumes from it.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC303",
    slug="non-atomic-save",
    severity=Severity.NOTE,
    certainty=Certainty.STRONG,
    remedy="Save to a temporary name in the same folder, then os.replace(temporary, final).",
    doc=__doc__,
)
