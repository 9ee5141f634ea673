"""A load that is not strict, and nobody looks at which keys were left out.

What:
    `load_state_dict(..., strict=False)` (or `safetensors.torch.load_model` and the state-dict
    functions of `torch.distributed.checkpoint` in the same mode), and what it returns is dropped.

Why it matters:
    Parameters that the file lacks keep their random values, and tensors that fit nowhere are left
    out. One prefix (`module.`), one renamed layer or one flipped bit in a key is enough. The
    result names both kinds; dropped, a model that is partly random looks loaded.

Evidence:
    The call, the model and the state dict as they are called in the code.

What to do:
    Keep the result and test it: `missing_keys` against the keys that are expected to be missing,
    `unexpected_keys` against none. `everybit.load_into` does it and names what did not arrive.

Known false alarms:
    A partial load on purpose, where the result is still worth a test: nothing else tells a wrong
    prefix from what was intended. It is a `note` where a comment beside the load speaks of
    `strict`, or where the state dict is an argument of the function. Nothing is said where the
    code itself compares or counts the keys it loads.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC307",
    slug="load-result-dropped",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Keep the result and test its `missing_keys` and `unexpected_keys`.",
    doc=__doc__,
)
