"""Tensors of the file did not arrive in the model, arrived elsewhere, or were overwritten.

What:
    A model was loaded from a file and does not hold what the file holds: names or shapes do not
    fit, so that tensors were left out; or what arrived was overwritten before it was used.

Why it matters:
    `strict=False`, a prefix too much (`module.`, `_orig_mod.`, `model.`) or an initialisation that
    runs after the load leave random numbers where trained weights should be. Nothing fails: the
    model trains, only worse.

Evidence:
    How many tensors the file and the model have, how many arrived, names of those that are missing
    or unexpected, and the prefix that would make them fit where there is one.

What to do:
    Load with `everybit.load_into(model, path)`, which proves arrival and suggests the prefix; pass
    `prefix="auto"` to have it used. Load after everything that initialises.

Known false alarms:
    A deliberate subset whose names do not fit at all. A new head, a tied weight, buffers that are
    computed (`position_ids`, `inv_freq`), adapter weights, and a whole file given to a part that
    is complete afterwards are known and no finding.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL116",
    slug="load-incomplete",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Load it with `everybit.load_into(model, path)`: it proves arrival and names the fix.",
    doc=__doc__,
)
