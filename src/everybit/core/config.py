"""One `Config`: its fields are keys of `[tool.everybit]`, variables, and flags of the verbs."""

from __future__ import annotations

import os
import re
import types
import typing
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from everybit.core.errors import ConfigError, PathError
from everybit.core.finding import Severity  # noqa: TC001 - field types are read at run time
from everybit.core.steps import Steps
from everybit.core.variables import read_settings
from everybit.core.web_address import check_web_address, shown_address

if TYPE_CHECKING:
    from collections.abc import Mapping


#: The largest cadence: steps are counted in no more bits than this.
MAX_EVERY: Final = 2**31
_FROM_ZERO: Final = (
    "replay_every",
    "replicas_every",
    "max_rewinds",
    "pause_timeout_s",
    "patience_s",
    "incident_mb",
    "max_incidents",
)
_OUR_TABLE: Final = rb"""(?m)^\s*\[+\s*["']?tool["']?\s*\.\s*["']?everybit\b"""


class OnFinding(StrEnum):
    """What a Guard does about a finding."""

    RECORD = "record"
    WARN = "warn"
    PAUSE = "pause"
    STOP = "stop"
    HEAL = "heal"
    REWIND = "rewind"


class TraceLevel(StrEnum):
    """What a run records of each step."""

    STEP = "step"
    MODULE = "module"
    OP = "op"


class Format(StrEnum):
    """How a verdict is printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


def _option(
    default: Any, help_text: str, *verbs: str, metavar: str = "", secret: bool = False
) -> Any:
    metadata = {"help": help_text, "verbs": verbs, "metavar": metavar, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting. Flags win over the environment, that over the file, this over defaults."""

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
    gradients: bool = _option(
        True, "Test gradients between the backward pass and the update.", "run"
    )
    scrub_percent: int = _option(
        2,
        "While nothing is trained, test weights for so much of a call's time, in percent"
        " (100: all weights before each call).",
        "run",
        metavar="N",
    )
    numerics: bool = _option(
        True, "Judge losses, gradients, weights and moments by their values.", "run"
    )
    samples: bool = _option(True, "Keep account of the samples that loaders deliver.", "run")
    replay_every: int = _option(
        200,
        "Compute every N-th checked step a second time and compare (0: only when a sensor asks).",
        "run",
        metavar="N",
    )
    replicas_every: int = _option(
        1,
        "Compare the ranks' copies of the model every N checked steps (0: never).",
        "run",
        metavar="N",
    )
    spot_checks: bool = _option(
        False, "Test matrix products and convolutions by checksums while they are computed.", "run"
    )
    trace: TraceLevel = _option(
        TraceLevel.STEP,
        "What to record: of the step as a whole, of each module's calls, or of each operation.",
        "run",
    )
    trace_steps: str | None = _option(
        None,
        "Trace by operation at these steps only, by module at the others (3,10-12).",
        "run",
        metavar="STEPS",
    )
    trace_sums: str | None = _option(
        None,
        "Keep block sums of these values at every checked step (names or patterns, with commas;"
        " default: of all, at the first steps and at some later).",
        "run",
        metavar="NAMES",
    )
    preflight: bool = _option(
        False,
        "Tell at the first step whether this job repeats bit for bit, and what does not.",
        "run",
    )
    max_rewinds: int = _option(
        3, "Go back so many times for one step, then stop.", "run", metavar="N"
    )
    suspicions: str | None = _option(
        None,
        "Folder of the record of suspected devices (default: the user's state folder).",
        "run",
        metavar="DIR",
    )
    pause_timeout_s: int = _option(
        86_400, "Let a paused job go on after so many seconds.", "run", metavar="SECONDS"
    )
    patience_s: int = _option(
        10,
        "Wait so many seconds for a late rank, then go on without its answer.",
        "run",
        metavar="SECONDS",
    )
    keep_batch: bool = _option(False, "Keep the batch too in the scene of an incident.", "run")
    incident_mb: int = _option(
        256, "Room for the scenes of incidents, in MB (0: keep none).", "run", metavar="MB"
    )
    max_incidents: int = _option(32, "Keep so many scenes of a run.", "run", metavar="N")
    webhook: str | None = _option(
        None, "POST each finding as JSON to this address.", "run", metavar="URL", secret=True
    )
    track: str | None = _option(
        None,
        "Send numbers and findings to trackers: tensorboard[:DIR], mlflow[:URI],"
        " wandb[:PROJECT], prometheus[:FILE]; several with commas.",
        "run",
        metavar="TRACKERS",
    )
    fail_on: Severity | None = _option(None, "Exit with 1 from this severity on.", "*")
    exit_zero: bool = _option(False, "Exit with 0 whatever is found.", "*")
    format: Format = _option(Format.TEXT, "How to print the verdict.", "*")
    quiet: bool = _option(False, "Print errors and the verdict only.", "*")
    verbose: bool = _option(False, "Print more about the work itself.", "*")

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"every must be 1 or more, not {self.every}")
        if self.every > MAX_EVERY:
            raise ConfigError(f"every must be {MAX_EVERY} at most")
        if not 1 <= self.scrub_percent <= 100:
            raise ConfigError("scrub_percent must be from 1 to 100")
        for name in _FROM_ZERO:
            if not 0 <= getattr(self, name) <= MAX_EVERY:
                raise ConfigError(f"{name} must be from 0 to {MAX_EVERY}")
        if self.trace_steps is not None:
            self._check_trace_steps(self.trace_steps)
        if self.webhook is not None:
            check_web_address(self.webhook, key="webhook")

    def _check_trace_steps(self, text: str) -> None:
        try:
            Steps.parse(text)
        except ValueError as error:
            raise ConfigError(f"trace_steps: {error}") from None
        if self.trace is not TraceLevel.OP:
            raise ConfigError(
                f"trace_steps with trace = {str(self.trace)!r}",
                todo="it chooses the steps that are traced by operation: set trace to op",
            )

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        *,
        start: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Read the configuration file, and the environment over it.

        Args:
            path: The file (`--config`). Where None, the nearest `everybit.toml`, or
                `pyproject.toml` with a `[tool.everybit]` table, in `start` or a folder above it;
                defaults where there is none.
            start: Where to look from; the working directory by default.
            environ: Variables (`EVERYBIT_EVERY=10`); those of this process where None.

        Raises:
            PathError: The named file cannot be read.
            ConfigError: It is not TOML, or the file or the environment has an unknown key or an
                impossible value.
        """
        config = cls._from_file(path, start)
        types_ = {name: wanted for name, (wanted, _) in field_types().items()}
        values = read_settings(os.environ if environ is None else environ, types_)
        return config.updated(values, where="environment") if values else config

    @classmethod
    def _from_file(cls, path: Path | None, start: Path | None) -> Self:
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
            raise ConfigError(error.what, where=where, todo=error.todo) from None

    def is_set(self, name: str) -> bool:
        """Whether a setting is another one than its default."""
        return bool(getattr(self, name) != field_default(self.__dataclass_fields__[name]))

    def recorded(self) -> dict[str, Any]:
        """Return the settings as a run's record keeps them: addresses without their secrets."""
        values = asdict(self)
        if self.webhook is not None:
            values["webhook"] = shown_address(self.webhook)
        return values


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
    import tomllib  # only where there is a file

    data = b""
    try:
        data = path.read_bytes()
        document = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # A broken file of other tools is their business; settings of ours in it are not.
        if not required and path.name == "pyproject.toml" and not re.search(_OUR_TABLE, data):
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
