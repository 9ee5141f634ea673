"""A small file that is one pickle, as most are that somebody asks about: its scan in one piece.

What `scanning` and `streams` do for any content takes longer than such a pickle does. This comes to
the same, and leaves to these whatever is not as plain.
"""

from __future__ import annotations

from everybit.files.pickles.stream import read_pickles
from everybit.files.scans.kinds import is_only_pickle
from everybit.files.scans.names import promises_no_code
from everybit.files.scans.pickled import PickledOutcome, judge_pickles
from everybit.files.scans.streams import WRAPPER


def scan_plainly(data: bytes, name: str) -> PickledOutcome | None:
    """Return what a file comes to that holds one pickle and nothing else; None of any other.

    Args:
        data: The whole file.
        name: What findings call it.
    """
    if not is_only_pickle(data) or WRAPPER in data or promises_no_code(name):
        return None
    try:
        stream = read_pickles(data)
        judged = judge_pickles(data, path=name, member=None, start=0, stream=stream)
    except MemoryError:
        return None
    return None if judged.nested or judged.end != len(data) else judged
