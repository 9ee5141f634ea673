"""A stored value far outside its tensor's own distribution (a sensor).

What:
    At most eight elements of a tensor lie so many octaves (powers of two) above all others that
    trained values do not explain them: 2^40 in float32 and bfloat16, 2^10 in float16, 2^100 in
    float64, and more where the tensor's own values span many octaves.

Why it matters:
    A flip of the top exponent bit multiplies a value by 2^128 (float16: 2^16). The file loads, and
    the model answers nonsense.

Evidence:
    Element, value, the range of all others, and the exponent bit whose flip would put the element
    among them, with the value that it would have.

What to do:
    Compare with another copy (`everybit diff`), or with an earlier checkpoint.

Known false alarms:
    Outlier rows and channels, embeddings, frequencies, second moments over many decades, running
    statistics and numbers that a person wrote (-1e9) are none. Flips of the other bits change a
    value to what a weight can be, and are not seen without a checksum or a manifest.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL113",
    slug="value-implausible",
    severity=Severity.WARNING,
    certainty=Certainty.WEAK,
    remedy="Compare the element with another copy or an earlier checkpoint.",
    doc=__doc__,
)
