"""A toy verb with the shared flags, and the command line called in this process."""

from __future__ import annotations

import sys
from types import ModuleType

import click
import pytest

from everybit.cli import main, verbs
from everybit.cli.options import config_options


@pytest.fixture(autouse=True)
def _plain(monkeypatch, tmp_path):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capfd):
    """Call the command line; returns exit code, stdout and stderr."""

    def call(*args: str) -> tuple[int, str, str]:
        code = main(args)
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.fixture
def toy(monkeypatch):
    """Install a verb `toy` that answers with what it is told to."""

    def install(answer, flags_of: str = "run") -> None:
        @click.command("toy")
        @click.argument("paths", nargs=-1)
        @config_options(flags_of)
        def command(paths, config, output):
            """Answer."""
            return answer(paths=paths, config=config, output=output)

        module = ModuleType("toy_verb")
        module.command = command
        monkeypatch.setitem(sys.modules, "toy_verb", module)
        monkeypatch.setitem(verbs.VERBS, "toy", ("toy_verb", "Answer."))

    return install
