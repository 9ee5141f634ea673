"""Flags derived from the fields of `Config`, the same for every verb."""

from __future__ import annotations

import functools
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from everybit.core.config import Config, Format, config_fields, field_default, field_types
from everybit.core.verdict import default_fail_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

#: Other names of a flag. torchrun refuses `--run` anywhere on its line: it starts two of its own.
_ALSO: Final = {"quiet": "-q", "verbose": "-v", "run": "--run-dir"}
_FILE = click.Path(path_type=Path)


class GivenPath(click.Path):
    """A path that somebody named: an empty one is an unset variable, not the folder one is in."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; refuse an empty one."""
        if value == "":
            self.fail("the path is empty; is a variable not set?", param, ctx)
        return super().convert(value, param, ctx)


def flag_of(name: str) -> str:
    """Return the flag of a `Config` field.

    >>> flag_of("on_finding")
    '--on-finding'
    """
    return "--" + name.replace("_", "-")


def config_options(verb: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the flags of `verb`, and `--json`, `-o FILE`, `--config FILE`.

    The command receives `config`, a `Config` (flags win over the file, the file over the
    defaults), and `output`, an `Output`; it returns its exit code, mostly `output.verdict(...)`.
    """
    chosen = config_fields(verb)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**given: Any) -> Any:
            from everybit.cli.output import Output

            config = _configure(
                {f.name: given.pop(f.name) for f in chosen},
                turned_off=[f.name for f in chosen if given.pop(f"no_{f.name}", False)],
                as_json=given.pop("as_json"),
                file=given.pop("config_file"),
            )
            output = Output(config, given.pop("output_file"))
            return command(config=config, output=output, **given)

        options = [option for f in chosen for option in _options_of(f, verb)]
        options += [
            click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
            click.option(
                "-o",
                "output_file",
                type=_FILE,
                metavar="FILE",
                help="Write the verdict to FILE, whole or not at all.",
            ),
            click.option(
                "--config",
                "config_file",
                type=_FILE,
                metavar="FILE",
                help="Read settings from FILE, not from the nearest pyproject.toml or"
                " everybit.toml.",
            ),
        ]
        decorated: Callable[..., Any] = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _options_of(f: Field[Any], verb: str) -> list[Callable[[Any], Any]]:
    wanted, _ = field_types()[f.name]
    default = field_default(f)
    if f.name == "fail_on":
        default = default_fail_on(verb)
    text = f.metadata["help"]
    names = [*([_ALSO[f.name]] if f.name in _ALSO else []), flag_of(f.name), f.name]
    if wanted is bool:
        # The form that says what is so anyhow is hidden: the file may have said the opposite.
        off = click.option(
            f"--no-{flag_of(f.name)[2:]}",
            f"no_{f.name}",
            is_flag=True,
            hidden=not default,
            help=f"Do not {text[0].lower()}{text[1:]}",
        )
        return [click.option(*names, is_flag=True, hidden=bool(default), help=text), off]
    if default is not None:
        text = f"{text} [default: {default}]"
    kind: Any = wanted
    metavar = f.metadata["metavar"] or None
    if issubclass(wanted, StrEnum):
        kind = click.Choice([str(member) for member in wanted], case_sensitive=False)
        metavar = "|".join(wanted)
    return [click.option(*names, type=kind, default=None, metavar=metavar, help=text)]


def _configure(
    given: dict[str, Any], *, turned_off: list[str], as_json: bool, file: Path | None
) -> Config:
    wanted = {
        name: value for name, value in given.items() if value is not None and value is not False
    }
    for name in turned_off:
        if name in wanted:
            raise click.UsageError(f"{flag_of(name)} and its opposite are both given")
        wanted[name] = False
    if as_json:
        if wanted.get("format", Format.JSON) != Format.JSON:
            raise click.UsageError(f"--json and --format {wanted['format']} contradict each other")
        wanted["format"] = Format.JSON
    config = Config.load(file).updated(wanted, where="command line")
    if config.quiet and config.verbose:
        raise click.UsageError("--quiet and --verbose contradict each other")
    return config
