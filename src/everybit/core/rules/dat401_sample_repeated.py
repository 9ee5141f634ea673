"""A sample reached the model twice in an epoch.

What:
    A batch held a sample that the same epoch had given already, though the sampler draws each of
    them once; or two workers of an iterable data set read the same samples; or every rank read all
    of a data set that nothing shards.

Why it matters:
    Samples that come twice count twice, and mostly others are left out in their stead. Validation
    figures are then those of another data set, and two machines that repeat other samples do not
    come to the same model.

Evidence:
    Loader, epoch and batch, the keys, and the class of the sampler; for workers and ranks which of
    them, and how many samples were compared.

What to do:
    Look at the sampler, at what writes into its indices, and at `worker_init_fn`. An iterable data
    set has to give each worker its own part (`torch.utils.data.get_worker_info`), and ranks need a
    `DistributedSampler` or parts of their own.

Known false alarms:
    None with torch's samplers: replacement, weights and the padding of a `DistributedSampler` are
    told from repeats. Of a sampler class of the program's own nothing is assumed. Workers are
    compared by the bytes of their first samples: a data set whose workers are meant to read the
    same samples is told once.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT401",
    slug="sample-repeated",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Look at the sampler and at what each worker and rank reads; evaluate again once every "
    "sample comes once.",
    doc=__doc__,
)
