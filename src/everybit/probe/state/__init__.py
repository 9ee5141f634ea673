"""Everything that a training step carries, as one value: capture it, compare it, put it back.

state = State.capture({"": model}, {"AdamW": optimizer})
...
state.restore()          # the same tensor objects, the same memory, the old bits
state.digest()           # one digest over all of it, names and order included
state.differs(later)     # which tensors and elements parted
"""

from everybit.probe.state.place import Kind, Place
from everybit.probe.state.rng import RngState
from everybit.probe.state.state import State

__all__ = ["Kind", "Place", "RngState", "State"]
