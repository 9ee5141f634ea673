"""A file holds the content of another one.

What:
    A shard, or a file of a checkpoint, holds what belongs under another name or another step:
    two shards are exchanged; a shard is left over from an earlier save or has the dtypes and shapes
    of another one; a file is bit for bit the one of the sibling before while the rest of its
    checkpoint moved on; some tensors of an asynchronous save are still those of the save before.

Why it matters:
    Every file is whole and loads without a word. The model is then a mixture of two steps, or of
    two models, which no checksum shows.

Evidence:
    The file, what it holds instead or which file it equals, how many tensors are equal and how many
    moved. For siblings: whether the equal tensors moved before and after, so that they are not
    frozen.

What to do:
    Fetch the file again, or resume from the sibling that the message names.

Known false alarms:
    Tensors that training stops moving from one save on look torn in the newest checkpoint, which is
    why that is a warning there. Modification times say nothing and are not looked at.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL106",
    slug="file-misplaced",
    severity=Severity.ERROR,
    certainty=Certainty.STRONG,
    remedy="Fetch the file again from the save that the others come from.",
    doc=__doc__,
)
