"""The verbs of the command line: a static table, and a group that imports a verb only when asked.

`everybit --help` is answered from the table alone, so that it costs no import of a verb.
"""

from __future__ import annotations

import gc
import importlib
from typing import Final

import click

#: `{verb: (module with its `command`, one-line help)}`, in the order of `everybit --help`.
VERBS: Final[dict[str, tuple[str, str]]] = {
    "demo": (
        "everybit.cli.demo",
        "Train a small GPT, break it, and see each fault caught, named and undone.",
    ),
    "run": (
        "everybit.cli.run",
        "Run a training script and watch its weights and optimizer state.",
    ),
    "diff": ("everybit.cli.diff", "Find where two runs, or two model files or folders, part."),
    "drill": (
        "everybit.cli.drill",
        "Break a training on purpose, many times, and tell what is caught.",
    ),
    "matrix": (
        "everybit.cli.matrix",
        "Run a script again and again, and tell whether it repeats.",
    ),
    "replay": (
        "everybit.cli.replay",
        "Compute what replay found wrong again, here or on another device.",
    ),
    "report": ("everybit.cli.report", "Show what a run recorded, as text, JSON or a page."),
    "release": ("everybit.cli.release", "Let a paused job go on, or end it."),
    "scan": ("everybit.cli.scan", "Tell what loading model files would do."),
    "lint": ("everybit.cli.lint", "Look for unsafe loads and silent mistakes in training code."),
    "seal": ("everybit.cli.seal", "Remember the bytes of model files in a manifest."),
    "verify": ("everybit.cli.verify", "Test whether model files still hold the right bytes."),
    "repair": (
        "everybit.cli.repair",
        "Put the right bytes back, from parity, another copy or a checksum.",
    ),
    "extract": ("everybit.cli.extract", "Save what is whole of a damaged model file or folder."),
    "convert": (
        "everybit.cli.convert",
        "Turn a pickled checkpoint into safetensors and JSON; none of its code runs.",
    ),
    "env": ("everybit.cli.env", "Record what this machine and process run on; compare records."),
    "init": ("everybit.cli.init", "Make a minimal project to investigate in."),
    "rule": ("everybit.cli.rule", "Explain a rule: what it means and what to do."),
}

START_HERE: Final = """\
Start here:
  everybit demo                      see it work on a small GPT
  everybit run train.py ARGS         watch your own script, unchanged
  everybit report everybit-runs/RUN  read what was recorded
  everybit seal checkpoints/         remember the bytes, then at any time:
  everybit verify checkpoints/       are they still the same?
  everybit diff RUN_A RUN_B          where do two runs part?
"""

EXIT_CODES: Final = """\
Exit codes: 0 nothing found, 1 findings at or above --fail-on, 2 the request
cannot be carried out as asked, 3 a promised check could not run.
"""


class VerbGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a verb, None where there is no such verb."""
        if cmd_name not in VERBS:
            return None
        module_name = VERBS[cmd_name][0]
        was_on = gc.isenabled()
        gc.disable()  # what is imported stays
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name == module_name:
                raise click.UsageError(f"the verb {cmd_name!r} is not in this release") from error
            raise
        finally:
            if was_on:
                gc.enable()
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; an unknown one suggests the nearest."""
        name = str(args[0])
        if name not in VERBS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name.lower(), VERBS, n=1, cutoff=0.5)
            advice = f"did you mean {near[0]!r}?" if near else f"verbs: {', '.join(VERBS)}"
            raise click.UsageError(f"no verb {name!r}; {advice}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs, without importing any."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what to do first, and what the exit codes mean."""
        for block in (START_HERE, EXIT_CODES):
            formatter.write("\n")
            formatter.write(block)
        formatter.write("\n`everybit VERB --help` explains a verb, `everybit rule ID` a finding.\n")
