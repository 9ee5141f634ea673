"""What has changed between two states of nested settings."""

from __future__ import annotations

from typing import Any


def delta_of(before: Any, after: Any) -> Any:
    """Return what has to be merged into `before`, key by key, to give `after`.

    What is gone has the value None.

    >>> delta_of({"a": {"lr": 1, "eps": 2}, "b": 3}, {"a": {"lr": 4, "eps": 2}})
    {'a': {'lr': 4}, 'b': None}
    """
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    delta = {}
    for key, value in after.items():
        if key not in before:
            delta[key] = value
        elif before[key] != value:
            delta[key] = delta_of(before[key], value)
    return delta | {key: None for key in before if key not in after}


def merged(before: Any, delta: Any) -> Any:
    """Return `before` with a delta merged into it.

    >>> merged({"a": {"lr": 1, "eps": 2}, "b": 3}, {"a": {"lr": 4}, "b": None})
    {'a': {'lr': 4, 'eps': 2}}
    """
    if not (isinstance(before, dict) and isinstance(delta, dict)):
        return delta
    after = dict(before)
    for key, value in delta.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after
