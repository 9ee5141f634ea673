"""The entry point: help without imports, one-line errors, exit codes."""

from __future__ import annotations

import errno
import importlib
import subprocess
import sys

import click
import pytest

from everybit import __version__
from everybit.cli import verbs
from everybit.core.errors import DamagedError, StoppedError, UsageError


def _python(*args, **more):
    return subprocess.run(
        [sys.executable, "-m", "everybit", *args],
        capture_output=True, text=True, check=False, **more,
    )  # fmt: skip


def test_version(run):
    assert run("--version") == (0, f"everybit {__version__}\n", "")


@pytest.mark.parametrize("args", [(), ("--help",), ("-h",)])
def test_help_teaches(run, args):
    code, out, err = run(*args)
    assert (code, err) == (0, "")
    for verb, (_, text) in verbs.VERBS.items():
        assert f"  {verb} " in out
        assert text.split()[0] in out
    assert "Start here:" in out
    assert "Exit codes:" in out


def test_help_lists_a_verb_whose_module_is_missing(run, monkeypatch):
    monkeypatch.setitem(verbs.VERBS, "gone", ("everybit.cli.gone", "Not there yet."))
    assert "Not there yet." in run("--help")[1]
    code, out, err = run("gone")
    assert (code, out) == (2, "")
    assert err == "everybit: the verb 'gone' is not in this release\n"


@pytest.mark.parametrize("verb", list(verbs.VERBS))
def test_the_static_table_is_what_the_verbs_say(verb, run):
    command = importlib.import_module(verbs.VERBS[verb][0]).command
    assert isinstance(command, click.Command)
    assert command.name == verb
    assert command.help.partition("\n")[0] == verbs.VERBS[verb][1]
    code, out, err = run(verb, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: everybit {verb}" in out
    assert "\\b" not in out  # click's paragraph mark, in a raw docstring
    assert f"everybit {verb}" in out.split("Usage:")[1].partition("\n")[2], "examples are missing"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("rul", "MEM601"), "no verb 'rul'; did you mean 'rule'?"),
        (("VERIFY",), "no verb 'VERIFY'; did you mean 'verify'?"),
        (("xyzzy",), "no verb 'xyzzy'; verbs: demo, run,"),
        (("--verison",), "No such option '--verison'. Did you mean '--version'?"),
        (("rule", "--al"), "--all"),
        (("rule",), "give one rule (ID or slug), or --all; see `everybit rule --help`"),
        (("rule", "A", "B"), "unexpected extra argument"),
        (("rule", "MEM600"), "no rule 'MEM600'; did you mean 'MEM60"),
    ],
)
def test_bad_requests_are_one_line_and_exit_2(run, args, told):
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("everybit: ")
    assert err.count("\n") == 1
    assert told in err


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (UsageError("no", where="x"), 2, "everybit: x: no\n"),
        (DamagedError("cut", rule="FIL104"), 2, "FIL104"),
        (StoppedError("stopped at step 3"), 1, "everybit: stopped at step 3\n"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a\x1b[31m"), 2,
         "everybit: a\\x1b[31m: no such file or directory; check the spelling of the path\n"),
        (OSError(errno.EIO, "Input/output error", "disk"), 2, "everybit: disk: input/output"),
        (KeyboardInterrupt(), 130, "everybit: interrupted\n"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 2,
         "everybit: torch is not installed; `pip install 'everybit[torch]'` adds it\n"),
        (ZeroDivisionError("x"), 3, "internal error (ZeroDivisionError), not a finding"),
    ],
)  # fmt: skip
def test_failures_of_a_verb(run, toy, error, code, told):
    def fail(**_):
        raise error

    toy(fail)
    found, out, err = run("toy")
    assert (found, out) == (code, "")
    assert told in err


def test_an_internal_error_shows_where(run, toy):
    toy(lambda **_: [][0])
    code, _, err = run("toy")
    assert code == 3
    assert "Traceback" in err


def test_a_verb_may_exit_by_itself(run, toy):
    toy(lambda **_: click.get_current_context().exit(7))
    assert run("toy")[0] == 7
    toy(lambda **_: sys.exit(5))
    with pytest.raises(SystemExit, match="5"):
        run("toy")


def test_as_a_module_with_a_reader_that_goes_away():
    told = _python("rule", "--all")
    assert told.returncode == 0
    piped = subprocess.run(
        f"{sys.executable} -m everybit rule --all | head -n 1; exit ${{PIPESTATUS[0]}}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (piped.returncode, piped.stderr) == (0, "")
    assert piped.stdout.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_told():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        told = subprocess.run(
            [sys.executable, "-m", "everybit", "rule", "--all"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert told.returncode == 2
    assert told.stderr == "everybit: standard output: no space left on device\n"


def test_closed_streams_are_no_crash():
    told = subprocess.run(
        f"{sys.executable} -m everybit rule MEM601 >&- 2>&-; echo $?",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.stdout == "0\n"


def test_an_ascii_terminal_gets_every_character():
    env = {"PYTHONIOENCODING": "ascii", "PATH": "", "PYTHONUTF8": "0"}
    told = _python("rulé", env=env)
    assert told.returncode == 2
    assert "no verb 'rul\\xe9'; did you mean 'rule'?" in told.stderr
