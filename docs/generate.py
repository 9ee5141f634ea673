"""Write the pages that follow from the code: `python docs/generate.py`. A test holds them to it."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import everybit
from everybit.core.config import Config, field_default, field_types
from everybit.core.rule import all_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCS = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py. Change the code it follows from, then run it again. -->"

CONFIGURATION = """\
# Configuration

Every setting is a flag of the command line, an argument of `Guard`, an environment variable, and a
key of a configuration file. Flags and arguments win over variables, variables over the file, the
file over the defaults. The key `on_finding`, for one, is spelled

- `--on-finding stop` as a flag; `--shadow` and `--no-shadow` for yes and no,
- `on_finding="stop"` as an argument,
- `EVERYBIT_ON_FINDING=stop` as a variable; `1`, `true`, `yes`, `on` and `0`, `false`, `no`, `off`,
- `on-finding = "stop"` in a file, with hyphens or underscores.

## The file

The file is the nearest `everybit.toml`, or the nearest `pyproject.toml` with a `[tool.everybit]`
table, in the working directory or a folder above it. `--config FILE` names another one. An
unknown key is an error that suggests the nearest known one; a value of the wrong type is an error
that says which type is wanted. Either is exit code 2. So is a file that is not TOML, unless it is a
`pyproject.toml` without a `[tool.everybit]` table.

```toml
# pyproject.toml; in everybit.toml the same keys stand at the top level
[tool.everybit]
every = 10
on-finding = "heal"
shadow = true
```

## Settings of a run

{of_run}

## Settings of every verb that checks

{of_all}

Beside these, `--json` is short for `--format json`, and `-o FILE` writes the verdict to a file,
whole or not at all.

## Variables

An empty variable counts as not set. A variable that begins with `EVERYBIT_` and is no setting is an
error, but for those that begin with `EVERYBIT_CI_` or `EVERYBIT_TEST_`. `NO_COLOR` and
`FORCE_COLOR` decide on colour; without them a terminal gets it and a file or pipe does not.
"""


API = """\
# Python

`import everybit` loads neither torch nor numpy; every name below arrives when it is first used.
What each verb is for, with examples, stands on its own page; here is what the names take and give.
"""

TYPES = {int: "number", str: "text", bool: "yes or no"}

#: Errors that are caught by their public base.
MORE_ERRORS = ("core.errors.PathError", "core.errors.ConfigError", "core.errors.DamagedError")

#: What public names hand out, and is not itself imported by name.
HANDED_OUT = (
    "everybit.api.run.RunOutcome",
    "everybit.core.verdict.Checked",
    "everybit.core.verdict.Skipped",
    "everybit.core.divergence.Divergence",
    "everybit.ledger.RunReader",
    "everybit.ledger.LogReader",
    "everybit.ledger.IncidentEntry",
    "everybit.ledger.SavedTensor",
    "everybit.ledger.RngStates",
    "everybit.ledger.Pause",
    "everybit.core.observation.StepRecord",
    "everybit.core.observation.TensorTable",
    "everybit.probe.seeded.Setting",
    "everybit.probe.seeded.NotSet",
)


def pages() -> dict[str, str]:
    """Return `{path under docs: text}` of every generated page."""
    rules = all_rules()
    found = {f"rules/{rule.id}.md": f"{NOTE}\n\n{rule.page}" for rule in rules}
    lines = [
        f"| [{rule.id}]({rule.id}.md) | `{rule.slug}` | {rule.severity} | {rule.certainty} "
        f"| {rule.title} |"
        for rule in rules
    ]
    found["rules/index.md"] = "\n".join(
        [
            NOTE,
            "",
            "# Rules",
            "",
            "Every finding carries one of these ids. `everybit rule ID` prints the page.",
            "",
            "| id | slug | severity | certainty | said when |",
            "|---|---|---|---|---|",
            *lines,
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *(rule.id for rule in rules),
            "```",
            "",
        ]
    )
    found["api.md"] = f"{NOTE}\n\n{_api()}"
    text = CONFIGURATION.format(of_run=_settings("run"), of_all=_settings("*"))
    found["configuration.md"] = f"{NOTE}\n\n{text}"
    return found


def _api() -> str:
    names = [name for name in everybit.__all__ if not name.startswith("_")]
    errors = [name for name in names if name.endswith("Error")]
    values = [name for name in names if name[0].isupper() and name not in [*errors, "Guard"]]
    groups = {
        "Watch": ["autoclass", "Guard"],
        "Ask": ["autofunction", *(name for name in names if name[0].islower())],
        "Answers": ["autoclass", *values],
        "Errors": ["autoexception", *errors, *MORE_ERRORS],
    }
    parts = [API]
    for title, (directive, *members) in groups.items():
        parts.append(f"## {title}\n\n{_directives(directive, [f'everybit.{n}' for n in members])}")
    parts.append(f"## What they hand out\n\n{_directives('autoclass', HANDED_OUT)}")
    return "\n".join(parts)


def _directives(directive: str, names: Iterable[str]) -> str:
    options = "" if directive == "autofunction" else "\n   :members:\n"
    if directive == "autoexception":
        options += "   :show-inheritance:\n"
    blocks = "\n".join(f".. {directive}:: {name}{options}" for name in names)
    return f"```{{eval-rst}}\n{blocks}\n```\n"


def _settings(verb: str) -> str:
    rows = ["| key | value | default | what it does |", "|---|---|---|---|"]
    for setting in fields(Config):
        if verb not in setting.metadata["verbs"]:
            continue
        wanted, _ = field_types()[setting.name]
        is_enum = issubclass(wanted, StrEnum)
        value = ", ".join(f"`{member}`" for member in wanted) if is_enum else TYPES[wanted]
        default = field_default(setting)
        shown = "" if default is None else f"`{str(default).lower()}`"
        if setting.name == "fail_on":
            shown = "`error`; of `scan` and `lint` `warning`"
        told = setting.metadata["help"].replace("<", "&lt;")
        rows.append(f"| `{setting.name}` | {value} | {shown} | {told} |")
    return "\n".join(rows)


def main() -> None:
    """Write the pages and remove rule pages of rules that are gone."""
    wanted = pages()
    for path in (DOCS / "rules").glob("*.md"):
        if f"rules/{path.name}" not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
