"""torch.load refuses a file because its pickle names more than tensors and plain containers.

What:
    `torch.load(weights_only=True)`, the default since torch 2.6, does not read the file: its pickle
    names a class or function that torch does not build, uses an opcode that torch's own unpickler
    lacks (it knows 38), or the file has a form that it never reads so (TorchScript, the tar format
    of the first releases, a plain pickle). The answer comes from a model of that unpickler which
    executes nothing, and says yes only where it is proved that torch 2.13 does not raise. Releases
    from 2.6 on differ in a few dtypes only.

Why it matters:
    The refusal is a protection and no damage: what a pickle names can run code. Switching it off
    for a file of unknown origin hands the machine to whoever made the file. Torch stops at the
    first name that it does not know; here all of them are told at once.

Evidence:
    `names`: each refused name, with a key of the loaded object under which it hangs; `details`: of
    each the library that it comes from, the first few keys, its place in the pickle, and whether it
    is on the list of names known to be harmless. `reasons`: what else stands against the file (an
    opcode, a call, items of something that is no dictionary). `safe_globals`: the list that would
    lift the refusal, where all its names are known to be harmless and names are all that stands
    against the file. The severity is `note` where every refused name is known to be harmless.

What to do:
    In this order. (1) `everybit convert FILE --out DIR` writes the tensors as safetensors and the
    rest as JSON, bit for bit, without running any of it. (2) Load only the tensors:
    `everybit.load_into(model, FILE)` or `everybit extract FILE --out model.safetensors`. (3) If you
    know who made the file and all names are known to be harmless, allow exactly these around that
    one load: `with torch.serialization.safe_globals([...])`, as the finding writes it. Then save
    plain state dicts or safetensors.

Known false alarms:
    The model says yes only where it is proved that torch does not raise. A few files that torch
    reads are told too, with certainty `strong` in place of `proof`: strided nested tensors, tensors
    as keys of a dictionary, and arguments that torch.save never writes. A damaged letter in a usual
    name looks the same to torch; everybit tells it as damage.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="PKL204",
    slug="weights-only-refused",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="`everybit convert FILE --out DIR`, or load only its tensors with `everybit.load_into`.",
    doc=__doc__,
)
