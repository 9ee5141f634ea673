"""A run of zeros inside dense tensor data: a write that was lost.

What:
    Whole blocks of a file (pages of 4096 bytes, or sectors of 512) are zero, and the zeros begin or
    end in the middle of a tensor that is otherwise dense.

Why it matters:
    A crash, a full disk, a failed copy or an interrupted download leaves a file of the right size
    in which some blocks were never written. It loads without a word, with zeros for weights.

Evidence:
    The byte range, the blocks that its ends lie on, the tensors it cuts and covers, how many of
    the elements around it are zero. Certainty `strong` where both ends lie on pages of the file and
    on no boundary of the tensor's rows, `proof` where a checksum fails there as well, else `weak`.

What to do:
    Fetch or copy the file again, or repair it from a copy or from parity.

Known false alarms:
    Zeros that belong there are told apart by where they end: whole tensors, whole rows, pruned or
    sparse tensors are none. A hole that begins and ends on row boundaries is therefore not seen
    without a checksum or a manifest.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL105",
    slug="zero-hole",
    severity=Severity.ERROR,
    certainty=Certainty.STRONG,
    remedy="Fetch or copy the file again; the named tensors hold zeros that were never saved.",
    doc=__doc__,
)
