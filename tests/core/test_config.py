"""Configuration: one set of fields, read from files and flags, with errors that advise."""

from __future__ import annotations

from dataclasses import fields

import pytest

from everybit.core.config import Config, OnFinding, config_fields
from everybit.core.errors import ConfigError, PathError
from everybit.core.finding import Severity
from everybit.core.variables import variable_of


def _load(tmp_path, text, name="everybit.toml"):
    path = tmp_path / name
    path.write_text(text)
    return Config.load(path)


def test_values_are_converted_and_hyphens_allowed(tmp_path):
    config = _load(tmp_path, 'every = 4\non-finding = "heal"\nfail_on = "note"\nshadow = true\n')
    assert (config.every, config.on_finding, config.fail_on, config.shadow) == (
        4, OnFinding.HEAL, Severity.NOTE, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("evry = 4", "unknown key 'evry'; did you mean 'every'?"),
        ("zzz = 4", "unknown key 'zzz'; known keys: "),
        ("every = 0", "every must be 1 or more, not 0"),
        ("every = 99999999999999999999", "every must be 2147483648 at most"),
        ("every = true", "every = True is of type bool; give a value of type int"),
        ('every = "4"', "every = '4' is of type str"),
        ("every = 2.0", "is of type float"),
        ('on_finding = "explode"', "choose one of record, warn,"),
        ("on_finding = 3", "choose one of"),
        ("run = 3", "run = 3 is of type int; give a value of type str"),
        ("shadow = 1", "shadow = 1 is of type int"),
        ("every =", "not valid TOML"),
        ("[every]\nx = 1", "is of type dict"),
    ],
)
def test_impossible_values_say_what_where_and_what_to_do(tmp_path, text, told):
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text)
    assert told in caught.value.line()
    assert str(tmp_path / "everybit.toml") in caught.value.line()


def test_a_file_that_is_not_text_or_not_there(tmp_path):
    (tmp_path / "everybit.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid TOML"):
        Config.load(tmp_path / "everybit.toml")
    with pytest.raises(PathError, match="check the spelling"):
        Config.load(tmp_path / "missing.toml")


def test_the_nearest_file_with_a_table_is_used(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert Config.load(start=inner) == Config()
    (tmp_path / "pyproject.toml").write_text("[tool.everybit]\nevery = 7\n")
    assert Config.load(start=inner).every == 7
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert Config.load(start=inner).every == 7
    (inner / "everybit.toml").write_text("every = 3\n")
    assert Config.load(start=inner).every == 3


@pytest.mark.parametrize("text", ["tool = 3", "[tool]\neverybit = 3", "= broken"])
def test_a_strange_pyproject_above_never_crashes(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    if "everybit" in text:
        with pytest.raises(ConfigError, match="is not a table"):
            Config.load(start=tmp_path)
    else:
        assert Config.load(start=tmp_path) == Config()


def test_a_named_pyproject_without_a_table_gives_the_defaults(tmp_path):
    assert _load(tmp_path, "[project]\nname = 'x'\n", "pyproject.toml") == Config()


@pytest.mark.parametrize(
    "text",
    [
        "[tool.everybit]\nevery = \n",
        "[project\n[tool.everybit]\nevery = 3\n",
        '[ tool . "everybit" ]\nevery = 3\n= x\n',
        "[tool.everybit]\nevery = 3\n[tool.everybit]\n",
        "[tool.everybit]\nrun = '\xe9'\n",
    ],
)
def test_a_broken_file_with_settings_of_ours_is_not_passed_over(tmp_path, text):
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        Config.load(start=tmp_path)
    assert str(tmp_path / "pyproject.toml") in caught.value.line()


@pytest.mark.parametrize("text", ["[tool.everybitten]\n= x", "# [tool.everybit]\n= x", "[tool.x\n"])
def test_a_broken_file_of_other_tools_is_passed_over(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    assert Config.load(start=tmp_path) == Config()


def test_every_field_says_what_it_is_for_and_whose_it_is():
    for verb in ("run", "verify"):
        for field in config_fields(verb):
            assert field.metadata["help"].endswith(".")
            assert field.metadata["verbs"]
    names = [field.name for field in config_fields("verify")]
    assert "every" not in names
    assert "fail_on" in names


def test_every_setting_is_a_variable(tmp_path):
    environ = {
        "EVERYBIT_RUN": "runs/a",
        "EVERYBIT_EVERY": " 10 ",
        "EVERYBIT_ON_FINDING": "STOP",
        "EVERYBIT_SHADOW": "yes",
        "EVERYBIT_FAIL_ON": "",
        "EVERYBIT_CI_VENV": "/somewhere",
        "EVERYBIT_TEST_ANYTHING": "1",
        "everybit_every": "3",
        "PATH": "x",
    }
    path = tmp_path / "everybit.toml"
    path.write_text('every = 2\nfail_on = "note"\nquiet = true\n')
    config = Config.load(path, environ=environ)
    assert config == Config(
        run="runs/a", every=10, on_finding=OnFinding.STOP, shadow=True,
        fail_on=Severity.NOTE, quiet=True,
    )  # fmt: skip
    for field in fields(Config):
        assert Config.load(path, environ={variable_of(field.name): ""}) == Config.load(path)
    assert not Config.load(path, environ={"EVERYBIT_QUIET": "0"}).quiet


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("EVERYBIT_EVRY", "10", "unknown key 'EVERYBIT_EVRY'; did you mean 'EVERYBIT_EVERY'?"),
        ("EVERYBIT_", "", "unknown key 'EVERYBIT_'"),
        ("EVERYBIT_EVERY", "ten", "EVERYBIT_EVERY='ten'; give a whole number"),
        ("EVERYBIT_EVERY", "0", "every must be 1 or more, not 0"),
        ("EVERYBIT_EVERY", "9" * 4000, "give a whole number"),
        ("EVERYBIT_SHADOW", "maybe", "give 1 or 0"),
        ("EVERYBIT_ON_FINDING", "explode", "choose one of record, warn, pause,"),
        ("EVERYBIT_WEBHOOK", "ftp://me:secret@x", "webhook is no web address"),
    ],
)
def test_impossible_variables_are_told(variable, text, told, tmp_path):
    with pytest.raises(ConfigError) as caught:
        Config.load(start=tmp_path, environ={variable: text})
    assert caught.value.line().startswith("environment: ")
    assert told in caught.value.line()
    assert "secret" not in caught.value.line()


@pytest.mark.parametrize(
    "address",
    ["hooks.example.org", "https://", "https://a b/", "https://[x/", "http://x:0/", "x\ny"],
)
def test_what_is_no_web_address(address):
    with pytest.raises(ConfigError, match="begins with https"):
        Config(webhook=address)


def test_a_webhook_is_neither_shown_nor_recorded():
    config = Config(webhook="https://me:pw@hooks.example.org/services/T0SECRET?key=abc")
    for text in (repr(config), repr(config.recorded())):
        assert not [word for word in ("pw", "T0SECRET", "abc") if word in text]
    assert config.recorded()["webhook"] == "https://hooks.example.org/..."
