"""The order of samples is not the sampler's, or never changes.

What:
    A batch holds other samples than its sampler has next: its order is derived once more from the
    state that its generator was in. Or a loader that is shuffled gives an epoch in the very order
    of the epoch before.

Why it matters:
    A `DistributedSampler` shuffles by its epoch's number: without `set_epoch` each epoch is the
    first one over again, and the model sees the same batches together each time. A sampler whose
    result is not what its generator says was changed on the way.

Evidence:
    Loader, epoch, batch and place, the sample that came and the one that should have; for an order
    that repeats how many samples were compared, and what `set_epoch` was given.

What to do:
    Call `sampler.set_epoch(epoch)` as each epoch begins; seed a loader's generator once, not in
    each epoch.

Known false alarms:
    A program that means to see each epoch in the same order and still asks for shuffling. Order is
    judged for torch's own samplers; with `in_order=False` none is promised. Fewer than twelve
    samples are not compared.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT404",
    slug="order-differs",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Look at what writes into the sampler's indices; shuffle each epoch anew.",
    doc=__doc__,
)
