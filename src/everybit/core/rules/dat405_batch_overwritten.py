"""A batch's bytes changed between delivery and use.

What:
    A tensor of a batch holds other bytes when it reaches the loop than its worker collated, or
    other bytes when the model gets it than were delivered, though no operation of torch wrote it.

Why it matters:
    A collate function that fills one buffer again and again, or a copy that was still under way,
    gives samples another sample's pixels with the right labels. Nothing fails, the loss falls a
    little slower.

Evidence:
    The batch, its tensors that changed, and the batch whose bytes lie there now, where they are
    another one's. Digests are taken behind collate, at delivery and when the model is called.

What to do:
    Return a new tensor from `collate_fn`, or a copy of the buffer. Wait for a `non_blocking` copy
    before its source is written again.

Known false alarms:
    Code that writes a batch past torch on purpose, through a NumPy view of it. Where the bytes are
    no other batch's the finding is a `warning` of certainty `strong`. Operations in place, such as
    normalising a batch, move the version counter of the tensor and are no fault; nor is a buffer
    that is filled again once its batch was used.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT405",
    slug="batch-overwritten",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Return new tensors from collate_fn, and wait for copies before their source is"
    " written again.",
    doc=__doc__,
)
