"""Two workers, or two ranks, drew the same random stream.

What:
    Two worker processes of a DataLoader drew from random streams that began in the same state: a
    generator that was made in the dataset's `__init__`, or a global stream that was seeded alike
    in every worker. Also where a generator began again in the next epoch, and where ranks drew
    the same streams while they read samples.

Why it matters:
    The augmentation of the run is a fraction of what it seems to be. Every worker draws the same
    crops, every epoch the same again; with one seed on every rank all ranks augment alike. The
    loss looks normal.

Evidence:
    The stream, the workers or ranks, the epoch, and the digest of the state in which it began.
    Streams count where they were drawn from: one that was seeded again in between (by the index
    of the sample, say) is another one, and one that nobody drew from is not compared.

What to do:
    Seed from the sample: `numpy.random.default_rng((seed, epoch, index))` in `__getitem__`, or
    draw from the global streams, which PyTorch seeds for each worker. On several ranks add the
    rank to the seed that samples are read with.

Known false alarms:
    Augmentation that is meant to repeat each epoch. It is told for loaders that shuffle only.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="DAT403",
    slug="worker-rng-shared",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Draw from the global streams, or seed from the sample's index and the epoch.",
    doc=__doc__,
)
