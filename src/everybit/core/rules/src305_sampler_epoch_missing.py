"""A loop over epochs never tells its DistributedSampler which epoch it is.

What:
    A `DistributedSampler` that shuffles feeds a loop over epochs, and nothing in reach calls its
    `set_epoch`.

Why it matters:
    The sampler shuffles with `seed + epoch`. Without `set_epoch` the epoch stays 0: every epoch
    has the same order, and every rank sees the same part of the data in the same batches, for
    ever. Nothing warns; the loss only gets worse than it could be.

Evidence:
    The sampler and the line that makes it, the loader, and the line that iterates over it.

What to do:
    Call `sampler.set_epoch(epoch)` at the top of the loop over epochs. On resume, start from the
    epoch that the checkpoint was written in.

Known false alarms:
    A framework that calls `set_epoch` by itself. Lightning, Accelerate, Fabric and Trainer are
    known; nothing is said where the loader is given to one of them or to code out of sight.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC305",
    slug="sampler-epoch-missing",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Call `sampler.set_epoch(epoch)` at the top of the loop over epochs.",
    doc=__doc__,
)
