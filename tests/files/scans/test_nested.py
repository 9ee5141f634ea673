"""Bytes in a pickle that `torch.storage._load_from_bytes` loads: they are what is judged."""

from __future__ import annotations

import io
import pickle

import pytest
from tests.files.pickles.assembler import Raw, build, call, name, pickled, push

from everybit import scan

torch = pytest.importorskip("torch")

LOAD = name("torch.storage", "_load_from_bytes")
EVIL = b"cposix\nsystem\n(S'echo ran'\ntR."
#: torch takes this for the number that its first format begins with.
BEHIND_TEXT = b"S'" + b"a" * 5000 + b"'\n0" + EVIL


def rules(tmp_path, data: bytes) -> set[tuple[str, str]]:
    """Rule and severity of what is told of a file."""
    path = tmp_path / "a.pkl"
    path.write_bytes(data)
    return {(found.rule, str(found.severity)) for found in scan(path).findings}


def saved(value: object) -> bytes:
    """What torch writes where a tensor is pickled by itself."""
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=False)
    return out.getvalue()


def test_what_begins_as_a_long_text_is_looked_into_to_its_end(tmp_path):
    assert ("PKL201", "error") in rules(tmp_path, pickled(call(LOAD, BEHIND_TEXT)))


def test_a_large_string_that_is_stepped_over_is_looked_into_where_it_is_loaded(tmp_path):
    text = b"S'" + b"a" * 2_000_000 + b"'\n0" + EVIL
    # The word alone makes the reader step over what is large.
    value = ["NumpyArrayWrapper", call(LOAD, text)]
    assert ("PKL201", "error") in rules(tmp_path, pickled(value))


def test_the_last_of_many_loads_is_looked_into(tmp_path):
    good = call(Raw(b"h\x00"), saved(1)) + b"0"
    data = LOAD + b"q\x000" + good * 10_005 + call(Raw(b"h\x00"), BEHIND_TEXT)
    assert ("PKL201", "error") in rules(tmp_path, pickled(Raw(data)))


def test_a_load_that_others_call_is_an_error(tmp_path):
    kept = build(call(name("argparse", "Namespace")), {"append": LOAD})
    value = Raw(call(LOAD, saved(1)) + b"0" + kept + push(EVIL) + b"a")
    assert ("PKL201", "error") in rules(tmp_path, pickled(value))


@pytest.mark.parametrize("size", [3, 400_000])
def test_tensors_in_a_plain_pickle_are_no_finding(tmp_path, size):
    held = pickle.dumps(torch.ones(size))
    parts = [held, pickled(["NumpyArrayWrapper", call(LOAD, saved(torch.ones(size)))])]
    for data in parts:
        assert {severity for _, severity in rules(tmp_path, data)} <= {"note"}


def test_bytes_that_only_begin_as_a_pickle_are_not_damaged(tmp_path):
    code = b"]" * 10 + b"\xd8\xff"
    told = rules(tmp_path, pickled(call(name("dill._dill", "_create_code"), code, b"(t.")))
    assert told == {("PKL202", "warning"), ("PKL204", "warning")}
