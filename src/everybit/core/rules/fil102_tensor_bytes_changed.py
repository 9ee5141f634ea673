"""A sealed tensor's bytes differ from its manifest.

What:
    The tensor was sealed with a digest; its bytes in the file now give another one.

Why it matters:
    PyTorch and safetensors load such a tensor without a word: of 3,000 random bit flips in a
    `torch.save` file, 2,981 loaded as other values.

Evidence:
    The tensor, its changed byte range and elements. A single flipped bit is located exactly and
    proven: flipping it back restores the sealed digest; then `changes` holds the element before
    and after. Larger damage is named by its leaves.

What to do:
    Fetch the file again, or restore it from another copy. Until then every other tensor of the
    file is still whole, where no other finding names it.

Known false alarms:
    None: equal bytes have equal digests. A tensor trained on after sealing is a new tensor;
    seal again.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL102",
    slug="tensor-bytes-changed",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Copy the file again from its source; do not load this tensor.",
    doc=__doc__,
)
