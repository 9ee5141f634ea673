"""A model asks its loader to run code that comes with it, or that lies elsewhere.

What:
    No pickle is needed: a config names Python files (`auto_map`), an archive holds sources or a
    compiled library that its loader runs, a layer is a Python function (Keras Lambda), a template
    reaches for Python's own objects, an operator comes from a library of its own.

Why it matters:
    Loaders ask before they run such code (`trust_remote_code=True`, `safe_mode=False`), and
    tutorials say yes for you. The code runs with all that you may do, and a model that is fetched
    again may come with other code than the one that you read.

Evidence:
    What asks for the code, the file or function that would run, and whether it is there. Code of
    another repository is named as such.

What to do:
    Read the code. Load with the library's own class instead, or pin the revision that you read,
    by its full commit hash. Keep `trust_remote_code` out of code that takes any model.

Known false alarms:
    Models that a library does not know yet need such code, and most of it is what it says. It is a
    `note` where the code must already be installed.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="PKL205",
    slug="model-code",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Read the code that it names, and pin the revision that you read.",
    doc=__doc__,
)
