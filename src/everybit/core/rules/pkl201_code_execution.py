"""Loading the file would run code, or touch files, the network or processes.

What:
    A pickle in the file reaches something that can do harm: it calls it, or names it, directly or
    through `getattr`, `attrgetter`, `import_module`, a dotted name or the result of another call.
    Or it changes an object that the running program shares. Nothing was run to find this out.

Why it matters:
    Unpickling makes these calls before the loading program sees anything of the result. A model
    file needs none of them. Where such a pickle breaks off later, the calls before that still run.

Evidence:
    The name, what it would do, how it is reached, how often it is called and with which constant
    arguments, and the offsets of the opcodes in the pickle.

What to do:
    Do not load it. Get the model from its publisher in another form (safetensors), or report the
    file to whoever hosts it. `everybit extract` reads the tensors without running anything.

Known false alarms:
    A program that stores its own callbacks may name such a function without harm in mind; whoever
    else writes the file can do the same with harm.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="PKL201",
    slug="code-execution",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Do not load it; get the weights as safetensors, or read only the tensors with "
    "`everybit extract`.",
    doc=__doc__,
)
