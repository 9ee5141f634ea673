"""Differences of environment, code and configuration that precede every value of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from everybit.core.config import Config
from everybit.diff.environment import Difference, compare_environments

if TYPE_CHECKING:
    from everybit.diff.side import RunSide

#: Settings of the recording bear on no number of the run.
_RECORDING: Final = frozenset(setting.name for setting in fields(Config))


def explain(a: RunSide, b: RunSide) -> list[Difference]:
    """Return every difference that precedes the first step, in the order of the records."""
    found = compare_environments(a.environment, b.environment)
    told = "argv" in a.environment and "argv" in b.environment
    if not told and a.command != b.command:
        found.append(
            Difference(
                entry="command",
                before=list(a.command),
                after=list(b.command),
                kind="configuration",
            )
        )
    flat_a, flat_b = _flat(a.config), _flat(b.config)
    found += [
        Difference(
            entry=f"config.{entry}",
            before=flat_a.get(entry),
            after=flat_b.get(entry),
            kind="configuration",
        )
        for entry in dict.fromkeys((*flat_a, *flat_b))
        if entry.partition(".")[0] not in _RECORDING and flat_a.get(entry) != flat_b.get(entry)
    ]
    return found


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= _flat(value, f"{name}.")
        else:
            found[name] = value
    return found
