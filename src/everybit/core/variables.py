"""Settings from the environment: `EVERYBIT_EVERY=10` is the key `every`."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "EVERYBIT_"
#: Variables with these prefixes are no settings: they belong to the project's own checks.
NOT_SETTINGS: Final = ("EVERYBIT_CI_", "EVERYBIT_TEST_")

_YES: Final = {"1", "true", "yes", "on"}
_NO: Final = {"0", "false", "no", "off"}
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")


def variable_of(name: str) -> str:
    """Return the variable of a setting.

    >>> variable_of("on_finding")
    'EVERYBIT_ON_FINDING'
    """
    return PREFIX + name.upper()


def read_settings(environ: Mapping[str, str], types: Mapping[str, type]) -> dict[str, Any]:
    """Return the settings that are set, as values of the right types.

    A variable that is set and empty counts as not set.

    Args:
        environ: The environment.
        types: The type of every setting, by name.

    Raises:
        ConfigError: A variable with our prefix is no setting, or its text is no such value.

    >>> read_settings({"EVERYBIT_EVERY": "10", "EVERYBIT_SHADOW": "no"}, {"every": int,
    ...     "shadow": bool})
    {'every': 10, 'shadow': False}
    """
    known = {variable_of(name): name for name in types}
    values: dict[str, Any] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable.startswith(NOT_SETTINGS):
            continue
        name = known.get(variable)
        if name is None:
            raise ConfigError.unknown_key(variable, known, where="environment")
        text = environ[variable].strip()
        if text:
            values[name] = _value(variable, text, types[name])
    return values


def _value(variable: str, text: str, wanted: type) -> Any:
    if wanted is bool:
        if text.lower() not in _YES | _NO:
            raise _refusal(variable, text, "give 1 or 0 (true, false, yes, no, on, off do too)")
        return text.lower() in _YES
    if wanted is int:
        if not _NUMBER.fullmatch(text):
            raise _refusal(variable, text, "give a whole number")
        return int(text)
    if issubclass(wanted, StrEnum):
        if text.lower() not in list(wanted):
            raise _refusal(variable, text, f"choose one of {', '.join(wanted)}")
        return wanted(text.lower())
    return text


def _refusal(variable: str, text: str, todo: str) -> ConfigError:
    return ConfigError(f"{variable}={text[:40]!r}", where="environment", todo=todo)
