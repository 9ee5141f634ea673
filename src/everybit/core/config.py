"""One `Config`: its fields are the keys of `[tool.everybit]` and the flags of the command line."""

from __future__ import annotations

import re
import tomllib
import types
import typing
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from everybit.core.errors import ConfigError, PathError
from everybit.core.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping


#: The largest cadence: steps are counted in no more bits than this.
MAX_EVERY: Final = 2**31
_OUR_TABLE: Final = re.compile(
    rb"""^\s*\[+\s*["']?tool["']?\s*\.\s*["']?everybit\b""", re.MULTILINE
)


class OnFinding(StrEnum):
    """What a Guard does about a finding."""

    RECORD = "record"
    WARN = "warn"
    STOP = "stop"
    HEAL = "heal"


class Format(StrEnum):
    """How a verdict is printed."""

    TEXT = "text"
    JSON = "json"


def _option(default: Any, help_text: str, *verbs: str, metavar: str = "") -> Any:
    return field(default=default, metadata={"help": help_text, "verbs": verbs, "metavar": metavar})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting of everybit. Flags win over the file, the file over these defaults."""

    run: str | None = _option(
        None, "Run folder (default: everybit-runs/<time>-<script>).", "run", metavar="DIR"
    )
    every: int = _option(1, "Check and record every N-th step.", "run", metavar="N")
    on_finding: OnFinding = _option(
        OnFinding.WARN, "What to do about a finding while the job runs.", "run"
    )
    shadow: bool = _option(
        False,
        "Keep a copy of weights and optimizer state, so that any damage can be healed.",
        "run",
    )
    fail_on: Severity = _option(
        Severity.ERROR, "Exit with 1 from this severity on.", "*", metavar="LEVEL"
    )
    exit_zero: bool = _option(False, "Exit with 0 whatever is found.", "*")
    format: Format = _option(Format.TEXT, "How to print the verdict.", "*")
    quiet: bool = _option(False, "Print errors and the verdict only.", "*")
    verbose: bool = _option(False, "Print more about the work itself.", "*")

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"every must be 1 or more, not {self.every}")
        if self.every > MAX_EVERY:
            raise ConfigError(f"every must be {MAX_EVERY} at most")

    @classmethod
    def load(cls, path: Path | None = None, *, start: Path | None = None) -> Self:
        """Read the configuration file.

        Args:
            path: The file (`--config`). Where None, the nearest `everybit.toml`, or
                `pyproject.toml` with a `[tool.everybit]` table, in `start` or a folder above it;
                defaults where there is none.
            start: Where to look from; the working directory by default.

        Raises:
            PathError: The named file cannot be read.
            ConfigError: It is not TOML, or has an unknown key or an impossible value.
        """
        if path is not None:
            return cls.from_mapping(_table(path, required=True) or {}, where=str(path))
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            for name in ("everybit.toml", "pyproject.toml"):
                candidate = folder / name
                if candidate.is_file():
                    table = _table(candidate, required=False)
                    if table is not None:
                        return cls.from_mapping(table, where=str(candidate))
        return cls()

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, where: str) -> Self:
        """Build from plain values, converting enums and checking types; `where` is the source."""
        return cls().updated(values, where=where)

    def updated(self, values: Mapping[str, Any], *, where: str = "configuration") -> Self:
        """Return a copy with `values` set; keys may use hyphens.

        Raises:
            ConfigError: Unknown key, or a value of the wrong type.
        """
        known = {f.name: f for f in fields(self)}
        converted = {}
        for key, value in values.items():
            name = key.replace("-", "_")
            if name not in known:
                raise ConfigError.unknown_key(key, known, where=where)
            converted[name] = _convert(name, value, where=where)
        try:
            return replace(self, **converted)
        except ConfigError as error:
            raise ConfigError(error.what, where=where) from None


def config_fields(verb: str) -> list[Field[Any]]:
    """Return the fields that are flags of `verb`, in order."""
    return [f for f in fields(Config) if {verb, "*"} & set(f.metadata["verbs"])]


@cache
def field_types() -> dict[str, tuple[Any, bool]]:
    """Return `{field: (type, may be None)}`."""
    found = {}
    for name, hint in typing.get_type_hints(Config).items():
        members = [part for part in typing.get_args(hint) if part is not types.NoneType]
        optional = isinstance(hint, types.UnionType)
        found[name] = (members[0] if optional else hint, optional)
    return found


def field_default(f: Field[Any]) -> Any:
    """Return a field's default value."""
    return None if f.default is MISSING else f.default


def _convert(name: str, value: Any, *, where: str) -> Any:
    wanted, optional = field_types()[name]
    if value is None and optional:
        return None
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        try:
            return wanted(value)
        except ValueError:
            choices = ", ".join(wanted)
            raise ConfigError(
                f"{name} = {value!r}", where=where, todo=f"choose one of {choices}"
            ) from None
    if type(value) is not wanted:
        raise ConfigError(
            f"{name} = {value!r} is of type {type(value).__name__}",
            where=where,
            todo=f"give a value of type {wanted.__name__}",
        )
    return value


def _table(path: Path, *, required: bool) -> dict[str, Any] | None:
    data = b""
    try:
        data = path.read_bytes()
        document = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # A broken file of other tools is their business; settings of ours in it are not.
        if not required and path.name == "pyproject.toml" and not _OUR_TABLE.search(data):
            return None
        raise ConfigError(f"not valid TOML ({error})", where=str(path)) from error
    if path.name == "pyproject.toml":
        tool = document.get("tool")
        table = tool.get("everybit") if isinstance(tool, dict) else None
        if table is None:
            return {} if required else None
        if not isinstance(table, dict):
            raise ConfigError("[tool.everybit] is not a table", where=str(path))
        return table
    return document
