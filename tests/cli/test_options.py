"""Flags derived from `Config`, and how they, the file and the defaults rank."""

from __future__ import annotations

import importlib
from dataclasses import fields

import click
import pytest

from everybit.cli import verbs
from everybit.core.config import Config, OnFinding

#: The flags of every verb, frozen: a new one is a decision, made here too.
COMMON = [
    "--config",
    "--exit-zero",
    "--fail-on",
    "--format",
    "--help",
    "--json",
    "--quiet",
    "--verbose",
    "-h",
    "-o",
    "-q",
    "-v",
]
FLAGS = {
    "demo": ["--help", "--out", "--quiet", "-h", "-q"],
    "run": [
        *COMMON,
        "--every",
        "--incident-mb",
        "--keep-batch",
        "--max-incidents",
        "--max-rewinds",
        "--no-gradients",
        "--no-numerics",
        "--no-samples",
        "--on-finding",
        "--patience-s",
        "--pause-timeout-s",
        "--preflight",
        "--replay-every",
        "--replicas-every",
        "--run",
        "--run-dir",
        "--scrub-percent",
        "--shadow",
        "--spot-checks",
        "--suspicions",
        "--trace",
        "--trace-steps",
        "--trace-sums",
        "--track",
        "--webhook",
        "-m",
    ],
    "drill": [
        "--closure",
        "--dtype",
        "--faults",
        "--help",
        "--json",
        "--out",
        "--quiet",
        "--ranks",
        "--results",
        "--seed",
        "--site",
        "--steps",
        "--verbose",
        "--workers",
        "-h",
        "-q",
        "-v",
    ],
    "diff": [*COMMON, "--against", "--cross", "--export", "--out", "--zoom"],
    "matrix": [
        *COMMON,
        "--fresh",
        "--in-place",
        "--out",
        "--repeat",
        "--requirements",
        "--threads",
        "--torch",
    ],
    "release": ["--help", "--stop", "-h"],
    "replay": [*COMMON, "--device", "--import-code", "--step", "--times"],
    "report": [*COMMON, "--against", "--out"],
    "scan": [*COMMON],
    "lint": [*COMMON, "--baseline", "--diff", "--exclude", "--fix", "--write-baseline"],
    "seal": [*COMMON, "--parity", "--parity-code", "--sha256", "--sign", "--source", "--license"],
    "repair": [*COMMON, "--accept-weak", "--from", "--keep", "--write"],
    "extract": [*COMMON, "--out"],
    "convert": [*COMMON, "--max-shard-size", "--out"],
    "verify": [*COMMON, "--expect-sha256", "--key", "--level", "--strong", "--trust", "--values"],
    "env": ["--help", "--json", "--out", "--variable", "-h"],
    "init": ["--help", "-h"],
    "rule": ["--all", "--help", "-h"],
}


@pytest.mark.parametrize("verb", list(verbs.VERBS))
def test_the_flags_are_frozen(verb):
    command = importlib.import_module(verbs.VERBS[verb][0]).command
    context = click.Context(command, help_option_names=["-h", "--help"])
    shown = [
        flag
        for param in command.get_params(context)
        if isinstance(param, click.Option) and not param.hidden
        for flag in (*param.opts, *param.secondary_opts)
    ]
    assert sorted(shown) == sorted(FLAGS[verb])


def test_the_settings_are_frozen():
    assert {f.name: (f.default, f.metadata["verbs"]) for f in fields(Config)} == {
        "run": (None, ("run",)),
        "every": (1, ("run",)),
        "on_finding": ("warn", ("run",)),
        "shadow": (False, ("run",)),
        "gradients": (True, ("run",)),
        "scrub_percent": (2, ("run",)),
        "numerics": (True, ("run",)),
        "samples": (True, ("run",)),
        "trace": ("step", ("run",)),
        "trace_steps": (None, ("run",)),
        "trace_sums": (None, ("run",)),
        "replay_every": (200, ("run",)),
        "replicas_every": (1, ("run",)),
        "spot_checks": (False, ("run",)),
        "preflight": (False, ("run",)),
        "max_rewinds": (3, ("run",)),
        "suspicions": (None, ("run",)),
        "pause_timeout_s": (86_400, ("run",)),
        "patience_s": (10, ("run",)),
        "keep_batch": (False, ("run",)),
        "incident_mb": (256, ("run",)),
        "max_incidents": (32, ("run",)),
        "webhook": (None, ("run",)),
        "track": (None, ("run",)),
        "fail_on": (None, ("*",)),
        "exit_zero": (False, ("*",)),
        "format": ("text", ("*",)),
        "quiet": (False, ("*",)),
        "verbose": (False, ("*",)),
    }


@pytest.fixture
def configured(run, toy):
    """Return the `Config` that a command line leads to."""

    def call(*args: str) -> Config:
        seen = []
        toy(lambda config, **_: seen.append(config))
        code, _, err = run("toy", *args)
        assert code == 0, err
        return seen[0]

    return call


def test_without_anything_the_defaults(configured):
    assert configured() == Config()


def test_flags_win_over_variables_these_over_the_file(configured, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.everybit]\nevery = 5\non-finding = "heal"\nshadow = true\nexit_zero = true\n'
    )
    config = configured("--on-finding", "stop", "--no-shadow")
    assert (config.every, config.on_finding, config.shadow, config.exit_zero) == (
        5, OnFinding.STOP, False, True,
    )  # fmt: skip
    monkeypatch.setenv("EVERYBIT_EVERY", "6")
    monkeypatch.setenv("EVERYBIT_ON_FINDING", "record")
    assert (configured().every, configured().on_finding) == (6, OnFinding.RECORD)
    assert configured("--every", "7").every == 7
    assert configured("--no-exit-zero").exit_zero is False
    monkeypatch.delenv("EVERYBIT_EVERY")
    (tmp_path / "other.toml").write_text("every = 9\n")
    assert configured("--config", str(tmp_path / "other.toml")).every == 9


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--every", "0"), "command line: every must be 1 or more, not 0"),
        (("--every", "two"), "'two' is not a valid integer"),
        (("--on-finding", "explode"), "not one of 'record', 'warn',"),
        (("--evry", "2"), "Did you mean one of: '--every', '--replay-every'?"),
        (("--json", "--format", "text"), "--json and --format text contradict each other"),
        (("-q", "-v"), "--quiet and --verbose contradict each other"),
        (("--shadow", "--no-shadow"), "--shadow and its opposite are both given"),
        (("--config", "missing.toml"), "missing.toml: no such file"),
        (("-o", "missing/v.json"), "missing/v.json: the folder it should lie in does not exist"),
        (("-o", "."), ".: is a folder; name a file"),
        (("--every",), "requires an argument"),
    ],
)
def test_bad_flags_are_one_line_before_any_work(run, toy, args, told):
    toy(lambda **_: pytest.fail("the verb began"))
    code, out, err = run("toy", *args)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_help_shows_choices_and_defaults(run, toy):
    toy(lambda **_: 0)
    _, out, _ = run("toy", "--help")
    assert "--on-finding record|warn|" in out
    assert "[default: warn]" in " ".join(out.split())
    assert "--no-shadow" not in out
