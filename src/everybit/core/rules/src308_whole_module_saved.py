"""A whole module or optimizer is pickled where its state would do.

What:
    `torch.save` is given a `torch.nn.Module`, an optimizer, a scheduler or a gradient scaler
    itself, alone or inside a dictionary, not its `state_dict()`. What the object is follows from
    how it was made or from the methods of a module that the function calls on it.

Why it matters:
    Such a file can only be loaded with `weights_only=False`, so everybody who uses it has to run
    what it says. It names classes and modules of your code: after a renaming or a move it does not
    load any more, and a changed class loads with old attributes.

Evidence:
    The expression and why it is known to be a module.

What to do:
    Save `model.state_dict()`, and build the module anew before `load_state_dict`. Hyper-parameters
    go beside it as plain values.

Known false alarms:
    None known. `torch.jit.save`, `torch.export.save`, state dicts, and a module that goes through
    memory to be copied are not reported.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC308",
    slug="whole-module-saved",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Save its state_dict(), and build the object anew before load_state_dict.",
    doc=__doc__,
)
