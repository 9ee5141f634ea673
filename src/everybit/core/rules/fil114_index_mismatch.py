"""The index of a sharded model and its shards disagree.

What:
    An index (`*.index.json`) says that a tensor lies in a shard which does not hold it. Or a
    shard holds tensors that the index does not list, or that lie in another one as well. Or the
    model's config gives sizes that its tensors do not have. Or a DCP
    `.metadata` lists an entry of another dtype or shape than the file holds, or a token file holds
    ids that the vocabulary beside it does not have or that its dtype cannot hold.

Why it matters:
    Loaders that trust the index fail, or fill the tensor with fresh random numbers and only warn.
    A shard that was exchanged for another, or comes from another save, looks like this.

Evidence:
    The index, the shard, how many tensors of it are missing, and the first of them by name.

What to do:
    Fetch the index and all shards again from one and the same save.

Known false alarms:
    None known: tensors that a loader makes up by itself stand in no index.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL114",
    slug="index-mismatch",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Fetch the index and all shards again from one save.",
    doc=__doc__,
)
