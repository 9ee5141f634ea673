"""After a resume, samples are replayed or skipped.

What:
    A loader was to go on from the position that `guard.state_dict()` saved, and it cannot, or does
    not: the indices that lead there are others than those that were delivered, the loader is
    another one, its workers' random streams cannot be gone on with.
    Or, with no position saved, a run that was started again in its folder goes on with other
    batches than those that followed the checkpoint in the attempt before.

Why it matters:
    Ten steps and ten more are then not twenty. Samples that are seen again pull the loss down
    after the resume, and look like progress.

Evidence:
    Loader, epoch and batch, and each link that breaks: the sampler, the epoch it was told, the
    number of workers, the order in which they finish.

What to do:
    Save `guard.state_dict()` with the model, load it before the loop, and give the loader the same
    sampler, batch size and workers. A sampler or an iterable data set with random numbers needs a
    generator of its own, or a `state_dict`.

Known false alarms:
    None of a saved position: what was delivered before is compared with what leads there, key by
    key. The samples of an iterable data set are compared part by part: a part that is not augmented
    shows the order, and where all are made with other random numbers the coverage says that only
    their number is known. The loop may also start over on purpose: then load the model's state
    alone. Of two attempts other samples in the middle of a pass are a warning only, and a new pass
    after a whole one is nothing.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT407",
    slug="resume-misaligned",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Give sampler and data set a generator or state of their own, and load the Guard's "
    "state before the loop.",
    doc=__doc__,
)
