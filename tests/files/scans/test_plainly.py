"""The short way through a small pickle says what the long ones say, and reads a file as they do."""

from __future__ import annotations

import os
import pickle
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from bench.mutations import mutate_pickle
from bench.scan_corpus import chains, gadgets_stdlib, streams

import everybit
from everybit.core.errors import PathError
from everybit.files.pickles import reach
from everybit.files.scans import held, scanning
from everybit.files.scans.held import Small, open_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HARMLESS = (
    pickle.dumps({"a": [1, (2.5, None)]}),
    pickle.dumps(b"\x80\x04N."),
    pickle.dumps(1) * 2,
)


def _contents(path: Path) -> Iterator[bytes]:
    for module in (gadgets_stdlib, streams, chains):
        for sample in module.samples():
            if "size" not in sample.kind:
                sample.write(path)
                yield path.read_bytes()
    yield from _HARMLESS


def _told(path: Path) -> dict[str, Any]:
    told = everybit.scan(path).to_json()
    del told["stats"]["seconds"]
    return told


def test_it_says_what_the_long_way_says(tmp_path, monkeypatch):
    path = tmp_path / "a.pkl"
    short, told, found = [], [], scanning.scan_plainly
    contents = [data for data in _contents(path) if data[:1] == b"\x80"]
    contents += [mutate_pickle(data, Random(n)) for n, data in enumerate(contents)]
    for data in contents:
        path.write_bytes(data)
        short.append(found(data, "a.pkl") is not None)
        told.append(_told(path))
    assert len(contents) > 100
    assert 0.5 < sum(short) / len(short) < 1
    monkeypatch.setattr(scanning, "scan_plainly", lambda data, name: None)
    monkeypatch.setattr(reach, "_find_plainly", lambda pickle: None)
    for data, before in zip(contents, told, strict=True):
        path.write_bytes(data)
        assert _told(path) == before


def test_a_small_file_is_read_at_once_and_a_large_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(held, "SMALL_BYTES", 10)
    for size in (0, 10, 11):
        path = tmp_path / f"{size}"
        path.write_bytes(b"x" * size)
        with open_file(str(path)) as source:
            assert isinstance(source, Small) == (size <= 10)
            assert source.read(0, 100) == b"x" * size
            assert (source.size, source.path) == (size, path)
            assert not source.changed()
            path.write_bytes(b"y" * (size + 1))
            assert source.changed()


def test_what_cannot_be_read_is_told_as_ever(tmp_path):
    with pytest.raises(PathError, match="no such file"):
        everybit.scan(tmp_path / "none.pkl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PathError, match="is not a regular file"):
        everybit.scan(tmp_path / "pipe")
