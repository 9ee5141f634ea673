"""Safetensors metadata is looked for among the tensors, where it never is.

What:
    `__metadata__` or `.metadata()` is asked of the dictionary that safetensors' `load_file` or
    `load` returned.

Why it matters:
    `load_file` returns the tensors only. A `.get("__metadata__")` is always empty, so version,
    format or hyper-parameters silently fall back to their defaults; an index raises.

Evidence:
    The dictionary, the line that loaded it, and the access.

What to do:
    Read it from the header: `with safetensors.safe_open(path, framework="pt") as f:
    f.metadata()`.

Known false alarms:
    A file that holds a tensor of that very name; the format forbids it.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC316",
    slug="metadata-from-tensors",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Read the metadata from the header: `safe_open(path, 'pt').metadata()`.",
    doc=__doc__,
)
