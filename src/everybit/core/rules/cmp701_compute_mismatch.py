"""A step was computed again from the same inputs and gave other bits.

What:
    A call of the model, its backward pass, or a whole step was repeated from what it began with:
    the same weights, inputs, buffers and random state. The repeats agree with each other, and
    the first computation is another one; or another device gives another result.

Why it matters:
    The device returned a wrong number and nothing raised. What was computed from it since, the
    update above all, is wrong too.

Evidence:
    The verdict (`transient`, `repeat-erred`, `unproven`, `changed-after`, `persistent`, `race`),
    how many computations agree and how many do not, whether this model has repeated exactly
    before, the first module whose output or gradient differs, elements and bits with the values
    before and after, and the pattern of the damage.

What to do:
    Once on one device: a transient fault; go back to the last good checkpoint, or run with
    `guard.step` and `on_finding="rewind"`, which computes the step again. Twice on one device:
    take the device out of service and test it. A race is a fault of software: run the step with
    synchronous execution and look at what it names.

Known false alarms:
    None known of severity error. A model that does not repeat by design (atomic additions) is
    CMP703, never this. Two warnings can be the program's own doing: `unproven`, where only the
    first call does something (a cache, a choice of kernels), and `changed-after`, where code
    writes to an output past torch (`.data`, NumPy).
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="CMP701",
    slug="compute-mismatch",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Take the step's result for wrong: go back to a checkpoint from before it. Test "
    "the device that computed it, and run the step elsewhere.",
    doc=__doc__,
)
