"""torch.load refuses a file because its pickle names more than tensors and plain containers.

What:
    The file's pickle names a class or function that `torch.load(weights_only=True)`, the default
    since torch 2.6, does not build.

Why it matters:
    The refusal is a protection and no damage: what a pickle names can run code. Switching it off
    for a file of unknown origin hands the machine to whoever made the file.

Evidence:
    The names that are refused.

What to do:
    Read the tensors without running anything (`everybit.load_into`, `everybit.extract`). For a
    class of your own in a file that you trust, allow that one name around that one load
    (`torch.serialization.safe_globals`), then save plain state dicts or safetensors.

Known false alarms:
    A damaged letter in a usual name looks the same to torch; everybit tells it as damage.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="PKL204",
    slug="weights-only-refused",
    severity=Severity.WARNING,
    certainty=Certainty.PROOF,
    remedy="Read its tensors with `everybit.load_into`, or have it saved again as a state dict.",
    doc=__doc__,
)
