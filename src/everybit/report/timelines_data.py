"""The timelines as compact JSON for the page's script: numbers as base64 of little-endian floats.

`{"first", "width", "steps": base64 or null, "lines": [{"name": [en, zh], "rank", "older"}],
"charts": [{"key", "log", "series": [{"line", "mean", "low", "high", "wide", "gaps"}]}],
"findings": [[step, severity, anchor, rule, [[line, value] ...] a chart]]}`

`steps` holds the stretches that have any value (their numbers, not their steps), null where all do.
NaN means that nothing is on record there; `gaps` are the stretches with no finite value. `low` and
`high` are null where they would be the mean.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from array import array
from typing import TYPE_CHECKING, Any, Final

from everybit.report.markup import Markup
from everybit.report.words import Said, say

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from everybit.core.finding import Finding, Location
    from everybit.report.series import Series
    from everybit.report.timelines import LineKey, Timelines

#: From this ratio of the highest to the lowest value a chart begins with a logarithmic axis.
_LOG_RATIO: Final = 50.0
_BY_NATURE_LOG: Final = {"scale"}
_FLOAT32_MAX: Final = 3.4e38
_FLOAT32_MIN: Final = 1.2e-38
#: Markers of findings; the findings beyond them are listed only.
MAX_MARKERS: Final = 2000


def encode_timelines(
    timelines: Timelines, findings: Sequence[Finding], shown: Collection[str]
) -> dict[str, Any]:
    """Return what the script draws.

    Args:
        timelines: What was gathered.
        findings: All of the run, gravest first.
        shown: Ids of the findings that have a place on the page.
    """
    quantities = timelines.quantities()
    keys = list(timelines.lines)
    used = _used(timelines)
    charts = [
        {
            "key": name,
            "log": starts_log(name, [series for _, series in timelines.series(name)]),
            "series": [
                {"line": keys.index(key), **_encode(series, used)}
                for key, series in timelines.series(name)
            ],
        }
        for name in quantities
    ]
    whole = len(used) == timelines.grid.size
    return {
        "first": timelines.grid.first,
        "width": timelines.grid.width,
        "size": timelines.grid.size,
        "steps": None if whole else _base64(array("I", used)),
        "lines": [
            {"name": _both(name_line(key, timelines)), "rank": key.rank, "older": key.older}
            for key in keys
        ],
        "charts": charts,
        "findings": [
            [
                finding.where.step,
                str(finding.severity),
                f"f-{finding.id}" if finding.id in shown else "findings",
                finding.rule,
                [_exact(timelines, name, finding.where) for name in quantities],
            ]
            for finding in findings[:MAX_MARKERS]
            if finding.where.step is not None
        ],
    }


def as_script_text(data: object) -> Markup:
    r"""Return JSON that no HTML parser mistakes for anything else.

    >>> as_script_text("</script><!--")
    '"\\u003c/script\\u003e\\u003c!--"'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def name_line(key: LineKey, timelines: Timelines) -> Said:
    """Return what a line is called."""
    if key.name:
        return Said(key.name, key.name)
    if key.rank is None:
        return say("line.logs" if timelines.resumed else "line.ranks", n=timelines.merged)
    if any(other.attempt != key.attempt for other in timelines.lines):
        return say("line.attempt", rank=key.rank, attempt=key.attempt)
    return say("line.rank", rank=key.rank)


def starts_log(name: str, lines: Sequence[Series]) -> bool:
    """Return whether a logarithmic axis shows more of some values; it needs positive ones."""
    finite = [(s.low[at], s.high[at]) for s in lines for at in range(s.grid.size) if s.count(at)]
    if not finite:
        return False
    low, high = min(low for low, _ in finite), max(high for _, high in finite)
    ratio = 1.0 if name in _BY_NATURE_LOG else _LOG_RATIO
    return low > 0 and high / low > ratio and name != "lr"


def _used(timelines: Timelines) -> list[int]:
    held = [series for lines in timelines.lines.values() for series in lines.values()]
    return [
        at
        for at in range(timelines.grid.size)
        if any(series.count(at) or at in series.broken for series in held)
    ]


def _encode(series: Series, used: Sequence[int]) -> dict[str, Any]:
    mean = [series.mean(at) for at in used]
    low = [series.low[at] if series.count(at) else math.nan for at in used]
    high = [series.high[at] if series.count(at) else math.nan for at in used]
    values = [abs(v) for v in (*low, *high) if math.isfinite(v) and v]
    wide = bool(values) and (max(values) > _FLOAT32_MAX or min(values) < _FLOAT32_MIN)
    spread = any(a < b for a, b in zip(low, high, strict=True))
    code = "d" if wide else "f"
    return {
        "mean": _base64(array(code, mean)),
        "low": _base64(array(code, low)) if spread else None,
        "high": _base64(array(code, high)) if spread else None,
        "wide": wide,
        "gaps": [place for place, at in enumerate(used) if at in series.broken],
        "broken": sum(series.broken.values()),
    }


def _exact(timelines: Timelines, name: str, where: Location) -> list[list[Any]]:
    """Return the lines' values at a finding's step: its rank's own, or all where it has none."""
    found: list[list[Any]] = []
    for number, (key, lines) in enumerate(timelines.lines.items()):
        if where.step is None or (key.rank is not None and where.rank not in (None, key.rank)):
            continue
        value = lines[name].exact.get(where.step) if name in lines else None
        if value is not None:
            found.append([number, value if math.isfinite(value) else None])
    return found


def _both(said: Said) -> list[str]:
    return [said.en, said.zh]


def _base64(numbers: array[Any]) -> str:
    if sys.byteorder != "little":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
