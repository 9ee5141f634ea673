"""An activation that checkpointing computed a second time differs from the first computation.

What:
    Activation checkpointing throws activations away and computes them again in the backward
    pass. On a checked step the tensors of the first and of the second computation are compared.

Why it matters:
    The gradients belong to another forward pass than the loss does. Either a device returned a
    wrong number in one of the two, or the function is not the same the second time.

Evidence:
    The checkpointed module, which of its saved tensors differ, and whether it has repeated
    exactly before in this run.

What to do:
    Where the same module has repeated exactly before, treat it as a fault of the device. Where it
    never has, look for dropout with `preserve_rng_state=False`, Python state, or an operation
    that does not repeat.

Known false alarms:
    Functions that do not repeat by design. They are noted as CMP703 unless they have repeated
    exactly before.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="CMP702",
    slug="recompute-mismatch",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Take the step's gradients for wrong; if the step's replay is exact, look for Python "
    "state or random numbers within the checkpointed function.",
    doc=__doc__,
)
