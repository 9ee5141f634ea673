"""`everybit env`, `everybit env diff A B`, `everybit env check`, `everybit env lock`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everybit.cli.failure import tell
from everybit.cli.options import config_options
from everybit.cli.output import emit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.cli.output import Output
    from everybit.core.config import Config

_PATH = click.Path(path_type=Path)


@click.group(
    "env", invoke_without_command=True, subcommand_metavar="[diff A B | check [RECORD] | lock]"
)
@click.option("--out", type=_PATH, metavar="FILE", help="Write the record to FILE, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@click.option(
    "--variable",
    "variables",
    multiple=True,
    metavar="NAME",
    help="Record this environment variable too; may be given several times.",
)
@click.pass_context
def command(
    ctx: click.Context, out: Path | None, as_json: bool, variables: tuple[str, ...]
) -> None:
    """Record what this machine and process run on; compare records.

    Python, torch and its libraries, CPU, GPUs, driver, threads, flags that change numbers, listed
    environment variables, NCCL's settings, every installed package with a digest of its files, lock
    files, container, the code's commit. Secrets are never recorded.

    \b
    Examples:
      everybit env
      everybit env --out env.json
      everybit env diff env.json everybit-runs/RUN
      everybit env check
      everybit env lock --out constraints.txt
    """
    if ctx.invoked_subcommand is not None:
        if out is not None or as_json or variables:
            verb = ctx.invoked_subcommand
            raise click.UsageError(f"options of `env {verb}` come after `{verb}`")
        return
    from everybit.api.env import env

    record = env(out, extra_variables=variables, of_job=False)
    if as_json:
        emit(json.dumps(record, indent=2))
    elif out is None:
        emit("".join(_lines(record)))
    if out is not None:
        tell(f"environment written to {out}")


@command.command("diff")
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
@config_options("env")
def diff(a: Path, b: Path, config: Config, output: Output) -> int:
    """Compare two records: files of `everybit env --out`, or run folders.

    What can change numbers most comes first, with the reason.
    """
    from everybit.api.env import env_diff

    return output.verdict(env_diff(a, b))


@command.command("check")
@click.argument("record", type=_PATH, required=False)
@config_options("env")
def check(record: Path | None, config: Config, output: Output) -> int:
    """Tell known issues that give wrong results of the versions here, or in RECORD."""
    from everybit.api.env import env_check

    return output.verdict(env_check(record))


@command.command("lock")
@click.option("--out", type=_PATH, metavar="FILE", help="Write it to FILE, whole or not at all.")
def lock(out: Path | None) -> int:
    """Print the installed packages as an exact constraints file for pip."""
    from everybit.api.env import env_lock

    text = env_lock(out)
    if out is None:
        emit(text)
    else:
        tell(f"lock written to {out}; `pip install -c {out} PACKAGES...` uses it")
    return 0


def _lines(record: dict[str, Any]) -> Iterator[str]:
    from everybit.report.safe_text import printable

    for section, facts in record.items():
        if not isinstance(facts, dict):
            continue
        yield f"{section}\n"
        if section == "packages":
            facts = {name: package["version"] for name, package in facts.items()}
        for name, value in _flat(facts):
            yield f"  {printable(name):<28}  {printable(value)}\n"


def _flat(facts: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", " ".join(map(str, value)) if isinstance(value, list) else value
