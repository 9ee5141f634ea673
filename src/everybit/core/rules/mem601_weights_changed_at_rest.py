"""Parameters or buffers changed between two steps, and no update did it.

What:
    After every update the Guard fingerprints parameters and buffers. Before their next use the
    bytes were different, and no known writer (optimizer, `load_state_dict`, a version counter,
    `.data`, a collective) had touched them.

Why it matters:
    Every later step computes with the damaged values. A flipped exponent bit ruins a run at
    once; a flipped mantissa bit silently changes it.

Evidence:
    The parameter or buffer, the elements and the bits that flipped, each value before and
    after, and how it was located (`grid`, `shadow`). Where the damage is too wide for the sums
    to tell the elements, the rows that hold them.

What to do:
    One flipped bit points at memory (a particle strike, a weak cell, no ECC) or a stray write;
    many neighbouring elements point at a stray write by native code. If it happens twice on one
    machine, run a memory test. With `on_finding="heal"` the right bits are put back before they
    are used.

Known false alarms:
    Code that writes through a raw pointer or a NumPy view of a parameter on purpose, between
    steps. Write through torch instead, or tell the Guard with `guard.rebaseline()`.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="MEM601",
    slug="weights-changed-at-rest",
    severity=Severity.ERROR,
    certainty=Certainty.PROOF,
    remedy='Go back to a checkpoint from before this step, or run with on_finding="heal"; '
    "test the machine's memory.",
    doc=__doc__,
)
