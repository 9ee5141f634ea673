"""What `torch.load(weights_only=True)` does with a file, as a model that executes nothing.

Torch reads such files with an unpickler of its own, in Python: 38 opcodes, a table of names, and
rules for what may be called, filled and built. The model walks the same opcodes over inert values
and asks of every call whether it is proved to succeed. `accepted` is said only then, so the model
may refuse what torch would accept (and says why), never the other way round.
"""

from everybit.files.weights_only.acceptance import Acceptance, Refusal
from everybit.files.weights_only.reading import read_as_torch

__all__ = ["Acceptance", "Refusal", "read_as_torch"]
