"""The protection of torch.load is switched off for the whole process.

What:
    `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` is set to a true value (in Python, a shell script, a
    Dockerfile, YAML or an `.env` file); `torch.load` or its defaults are replaced by something that
    sets `weights_only=False`; or `torch.serialization.safe_globals` and `add_safe_globals` let
    through a name that runs code (`eval`, `getattr`, `os.system`), or whatever the file itself
    asks for.

Why it matters:
    It reaches every load of the process, those of libraries as well, where nobody sees it at the
    call. A file from anywhere then runs what it says.

Evidence:
    The variable and its value, the replacement, or the names that are let through.

What to do:
    Take it out. For the one file that needs it, `everybit scan FILE` names what is refused; allow
    exactly those names around that one load, or convert the file.

Known false alarms:
    None known. Reading or removing the variable, `0`, replacements that pass arguments on
    unchanged or set `weights_only=True`, and patches inside tests are not reported.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC309",
    slug="weights-only-switched-off",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy=(
        "Take it out; `everybit scan` names what one file needs, to be allowed around that one "
        "load with torch.serialization.safe_globals."
    ),
    doc=__doc__,
)
