"""Parts of a checkpoint do not belong together.

What:
    Model, optimizer, moving average (EMA) and counters of one checkpoint come from different steps
    or different models: an optimizer that took other steps than the trainer counted; moments of a
    shape that its parameter does not have; names of parameters in another order than the model's
    own; state for parameters that are not there; an average that never moved, was reset, or shares
    its memory with the live weights; a step counter that no count can give.

Why it matters:
    `load_state_dict` matches optimizer state by position and checks neither names nor shapes nor
    steps. The run goes on, worse than before, and nothing says why.

Evidence:
    The tensor or counter, its value or shape, what it should be, and what says so.

What to do:
    Fetch the part that does not fit again, or resume from a sibling whose parts agree. Weights
    alone can be loaded and the optimizer begun anew.

Known false alarms:
    Optimizers of other libraries that count differently or keep their moments in another form.
    Parameters frozen or added later, several optimizers, skipped steps and schedulers stepped once
    an epoch are known and are no finding.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL115",
    slug="state-inconsistent",
    severity=Severity.ERROR,
    certainty=Certainty.STRONG,
    remedy="Resume from a sibling whose parts agree, or load the weights alone.",
    doc=__doc__,
)
