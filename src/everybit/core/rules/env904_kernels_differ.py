"""Other kernels compute on the two sides.

What:
    The instruction sets of the processor, the model of the GPU, or a library that holds kernels
    (torch, CUDA, cuDNN, MKL, oneDNN, a BLAS) differs.

Why it matters:
    Another kernel adds in another order, so results differ in their last places, in nearly every
    element. Bit for bit they cannot be compared. The same seed even gives other initial weights on
    processors with other instruction sets.

Evidence:
    The entry, both values, and how far they can move numbers.

What to do:
    Compare on equal machines and libraries, or judge differences against a band of rounding.

Known false alarms:
    Kernels that a program does not use. The entry differs, whether it matters is not on record.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="ENV904",
    slug="kernels-differ",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Use the same build and hardware, or expect other last places in nearly every value.",
    doc=__doc__,
)
