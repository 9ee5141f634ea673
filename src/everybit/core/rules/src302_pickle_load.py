"""A call unpickles data from outside, which runs what the data says.

What:
    `pickle`, `dill`, `cloudpickle`, `joblib`, `jsonpickle`, `shelve` or `marshal` reads data,
    `pandas.read_pickle` a table, `numpy.load` a file with `allow_pickle=True`, `msgpack_numpy`
    arrays of objects, or a subclass of `pickle.Unpickler` lets names through that are on no list.

Why it matters:
    A pickle is a program: it can call any function that can be imported. No check of the result
    helps, since the code has run by then. A list of forbidden names is no protection either: there
    is always one more way.

Evidence:
    The loader; for an Unpickler, what its `find_class` does with a name that is on no list.

What to do:
    Keep numbers in npy (without objects), safetensors or Parquet, settings in JSON, text in text.
    Where a pickle must be read, subclass `pickle.Unpickler` with a `find_class` that refuses every
    name that is not on a list. `everybit scan FILE` tells what a pickle would run.

Known false alarms:
    A file that nobody else can write to. A cache that the same function writes where it is
    missing is a note, as is a load that a parameter such as `allow_pickle` asks for, and a load in
    a test, except from the folder that the test was given to
    write into. Not reported are bytes that the same function pickled before, that the same object
    keeps or wrote to its temporary file, that come from the other ranks of the job by a
    collective, and `__setstate__`, which runs only while something is unpickled already.
"""

from everybit.core.finding import Certainty, Severity
from everybit.core.rule import Rule

RULE = Rule(
    id="SRC302",
    slug="pickle-load",
    severity=Severity.WARNING,
    certainty=Certainty.STRONG,
    remedy=(
        "Keep the data in a format that runs nothing (npy, safetensors, Parquet, JSON), or read it "
        "with an Unpickler whose find_class refuses every name that is not on a list."
    ),
    doc=__doc__,
)
