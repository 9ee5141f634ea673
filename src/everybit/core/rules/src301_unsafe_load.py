"""A call loads a file of torch or its kin in a way that runs what the file says.

What:
    `torch.load` is given `weights_only=False` or a `pickle_module`, or gets there by a variable, a
    default of a parameter or flag, a dictionary of keywords, a partial, or a function of the
    project. Or a loader whose own default is unsafe is called without the argument:
    `torch.hub.load_state_dict_from_url`, `torch.utils.model_zoo.load_url`, Lightning's
    `load_from_checkpoint` of a URL, `torch_save_to_dcp`, `PackageImporter`. As a `note`, where no
    argument can help: DCP, which unpickles `.metadata`; `accelerate`'s registered objects;
    TorchScript, which runs a program of the file, though not Python; and `torch.load` without the
    argument where the project's requirements admit a torch before 2.6.

Why it matters:
    A pickle is a program. Whoever made the file, or can change it on its way, runs code with your
    rights the moment it is loaded. `weights_only=True` builds tensors and plain containers only.

Evidence:
    The loader, the argument and where its value comes from.

What to do:
    Give `weights_only=True`. Where that refuses a file, `everybit scan FILE` names what it
    refuses, and `everybit convert` turns the file into safetensors. A class of your own is allowed
    around that one load with `torch.serialization.safe_globals`.

Known false alarms:
    A file that nobody else can write to. A cache that the same function writes where it is missing
    is a note, as is a load that a parameter such as `trusted` asks for, and a load in a test. Bytes
    that the same function saved before, those that come from the other ranks of the job, what a
    test loads from the folder that it was given to write into, and a flag that asks for it on the
    command line are not reported. Requirements are read from the project's metadata; an environment
    that always has torch 2.6 or later needs it said there.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC301",
    slug="unsafe-load",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy=(
        "Give weights_only=True; where it refuses a file, `everybit scan` names what it refuses "
        "and `everybit convert` takes the file out of pickle."
    ),
    doc=__doc__,
)
