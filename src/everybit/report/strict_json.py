"""A verdict as strict JSON: what Python's encoder would write as bare `NaN` becomes text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from everybit.core.dtype import json_number

if TYPE_CHECKING:
    from everybit.core.verdict import Verdict


def verdict_json(verdict: Verdict, *, indent: int | None = 2) -> str:
    """Return the object of `everybit.verdict/1` as text that any JSON parser reads.

    Lone surrogates (file names that are not UTF-8) stay escaped, so the text is always ASCII.
    """
    return json.dumps(strict(verdict.to_json()), indent=indent, allow_nan=False)


def strict(value: Any) -> Any:
    """Return `value` with only what strict JSON has: other objects become their text.

    >>> strict({"loss": float("nan"), 3: (1, 2.5)})
    {'loss': 'NaN', '3': [1, 2.5]}
    """
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int | float | complex):
        return json_number(value)
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [strict(item) for item in value]
    return str(value)
