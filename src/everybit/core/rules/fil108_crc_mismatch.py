"""An archive member fails its own checksum.

What:
    `torch.save` writes a zip archive with a CRC-32 for each member. The member's bytes do not
    give its CRC. `torch.load` does not check.

Why it matters:
    The damage happened after saving: a disk, a copy, memory under the page cache. The tensor
    stored in the member has other values.

Evidence:
    The member, the tensors that lie in it, stored and computed CRC. A single flipped bit
    explains a CRC difference at most at one place of the member; where it does, the element and
    bit are named with certainty `strong`, since larger damage can mimic one flip with
    probability bits / 2^32.

What to do:
    Copy the file again, or restore the member from another copy.

Known false alarms:
    An archive saved without checksums (`set_crc32_options(False)`) has zeros in every CRC
    field; that is reported as not checked, not as damage.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="FIL108",
    slug="crc-mismatch",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy="Copy the file again; do not load the named member.",
    doc=__doc__,
)
