"""The copies of one model on several ranks are not the same.

What:
    Data parallel ranks hold one model: parameters, buffers and optimizer state are equal, bit for
    bit, after every update. Their digests were compared over a group of the Guard's own, and
    one or more ranks hold other bits than the rest.

Why it matters:
    From here on every rank trains another model. The averaged gradients hide it; evaluation,
    checkpoints and the final weights depend on which rank wrote them.

Evidence:
    The ranks that differ and those that agree, the parameter, buffer or optimizer state, and how
    the culprit was told: by majority, by what its own record says, or not at all (two ranks).

What to do:
    Where it came with MEM601 or MEM602 on the same rank, that names the cause. Else test the
    device of the named rank. `on_finding="heal"` copies the right bits from a rank that has them.

Known false alarms:
    Copies that differ on purpose: buffers that are not broadcast, parameters that the data
    parallel wrapper was told to ignore, a model of its own on each rank. They are told apart and
    reported as not checked. Ranks that compute the update with other threads, kernels or settings
    drift apart in most parameters at once: that is one warning, and hardly a fault.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="RNK801",
    slug="replicas-differ",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Take the named rank's copy for wrong: copy it from another rank (on_finding=heal), or "
    "go back to a checkpoint from before this step.",
    doc=__doc__,
)
