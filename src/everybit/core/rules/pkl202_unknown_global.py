"""A pickle names something that is not known to be safe.

What:
    A pickle in the file names a class or function that is on neither list: not on the list of names
    known safe in a pickle (torch's own set, NumPy, the standard library's values, the usual
    training libraries), and not among the dangerous ones. Also cloudpickle's and dill's builders,
    which make functions and classes out of code in the file.

Why it matters:
    Loading imports that module and calls that name. What it does depends on the code installed
    where the file is loaded; a scanner that lets unknown names pass lets the next trick pass.

Evidence:
    The name, its library, how it is reached, how often it is called and with which constant
    arguments, and the offsets of the opcodes in the pickle.

What to do:
    Look at what the name is. If it is a class of your own, save plain state instead; if you know
    nothing of it, treat the file as code. `everybit convert` keeps such objects as inert records.

Known false alarms:
    Classes of your own project, and of libraries that the list does not hold yet.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="PKL202",
    slug="unknown-global",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy="Find out what it is before you load the file, or take only the tensors "
    "(`everybit convert`).",
    doc=__doc__,
)
