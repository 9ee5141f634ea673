"""The checkpoints of a folder in a verdict's numbers: which to resume from, what others lack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from everybit.report.safe_text import printable, printable_message

#: Keys of `Verdict.stats` that are told here and not among the numbers.
SIBLING_STATS: Final = ("newest_whole", "whole", "not_whole", "latest")
_MAX_LISTED: Final = 5


def describe_siblings(stats: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return labels and their lines; none for a folder without sibling checkpoints.

    >>> describe_siblings({"newest_whole": "step-2", "whole": ["step-2"],
    ...                    "not_whole": {"step-3": "lacks optimizer.pt"}})
    [('Newest whole', ['step-2']), ('Not whole', ['step-3: lacks optimizer.pt'])]
    """
    told: list[tuple[str, list[str]]] = []
    if "newest_whole" in stats:
        newest = stats["newest_whole"]
        whole = stats.get("whole", ())
        others = f" (and {len(whole) - 1} older)" if len(whole) > 1 else ""
        told.append(("Newest whole", [f"{printable(newest, 160)}{others}" if newest else "none"]))
    broken = stats.get("not_whole")
    if isinstance(broken, Mapping) and broken:
        lines = [
            f"{printable(str(name), 160)}: {printable_message(str(why), 240)}"
            for name, why in list(broken.items())[:_MAX_LISTED]
        ]
        if len(broken) > _MAX_LISTED:
            lines.append(f"and {len(broken) - _MAX_LISTED} more")
        told.append(("Not whole", lines))
    latest = stats.get("latest")
    if isinstance(latest, Mapping) and latest:
        told.append(("Latest", [_pointer(str(name), says) for name, says in latest.items()][:3]))
    return told


def _pointer(name: str, says: object) -> str:
    if not isinstance(says, Mapping):
        return printable(name, 160)
    state = "which is whole" if says.get("whole") else printable_message(str(says.get("why", "")))
    return f"{printable(name, 160)} names {printable(str(says.get('names', '')), 160)}: {state}"
