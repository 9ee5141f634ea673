"""Pickles in the strings of JSON, as Stable-Baselines3 and its like keep objects."""

from __future__ import annotations

import base64
import json
import pickle

import pytest
from tests.files.pickles.assembler import call, name, pickled

from everybit import scan

EVIL = pickled(call(name("posix", "system"), "echo ran"))
OLD = b"cposix\nsystem\n(S'echo ran'\ntR."


def rules(tmp_path, text: str) -> set[str]:
    """The rules that are told of a config."""
    path = tmp_path / "data.json"
    path.write_text(text)
    return {found.rule for found in scan(path).findings if str(found.severity) == "error"}


def agent(data: bytes) -> str:
    """An agent's settings with an object in them."""
    kept = {":type:": "<class 'type'>", ":serialized:": base64.b64encode(data).decode()}
    return json.dumps({"policy": kept, "gamma": 0.99})


@pytest.mark.parametrize(
    "text",
    [
        agent(EVIL),
        agent(OLD),
        agent(EVIL).replace('"gA', '"\\u0067A'),
        agent(OLD).replace(":serialized:", "\\u003aserialized:"),
        json.dumps([["x", {"kept": base64.b64encode(EVIL).decode()}]]).replace('"gA', '"g\\u0041'),
        '{"kept": [1, "' + base64.b64encode(EVIL).decode().replace("A", "\\u0041") + '"]}',
    ],
    ids=["new", "old", "escaped", "escaped key", "in lists", "in a list"],
)
def test_what_would_be_unpickled_is_looked_into(tmp_path, text):
    assert "PKL201" in rules(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        agent(pickle.dumps({"a": 1}, 0)),
        agent(pickle.dumps({"a": 1})),
        json.dumps({"a": "gAH", "b": "plain words", "é": "\u0041gA"}),
    ],
)
def test_harmless_strings_are_no_finding(tmp_path, text):
    assert rules(tmp_path, text) == set()
