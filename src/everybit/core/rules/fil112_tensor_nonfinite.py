"""NaN or infinity in a stored floating tensor.

What:
    A tensor of a model file, or of the optimizer state in it, holds values that are not finite.

Why it matters:
    One NaN in a weight makes every answer NaN. The run may have diverged before it saved, or a bit
    was flipped at rest (the top exponent bit of 1.0 gives infinity).

Evidence:
    Which tensor, how many elements are NaN and how many infinite, the first of them, and of how
    many in all. Where most tensors are concerned it is one finding for the file: a run that
    diverged, not a file that was damaged.

What to do:
    Go back to a checkpoint from before; with a manifest or another copy `everybit diff` tells
    whether it was saved so.

Known false alarms:
    Infinities that are meant are none: masks (all other elements equal, or a sixteenth of the
    tensor infinite and no NaN), and tensors of fewer than 16 elements that hold only infinities
    ("no value yet"). A NaN is always told; in a tensor of one element only as a warning.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL112",
    slug="tensor-nonfinite",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Go back to a checkpoint from before, or compare with another copy.",
    doc=__doc__,
)
