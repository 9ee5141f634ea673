"""What is scanned where a path is written in an unusual way, or is no file."""

from __future__ import annotations

import os

import pytest

import everybit
from everybit.files.source import ByteSource, FolderError

BAD = b"\x80\x04cos\nsystem\n(X\x02\x00\x00\x00lstR."


def rules(verdict):
    return [(found.rule, found.where.path) for found in verdict.findings]


@pytest.mark.parametrize(
    "written", ["a.pkl", "./a.pkl", "b/../a.pkl", ".//a.pkl", "a.pkl/", "a.pkl/."]
)
def test_a_file_is_called_by_its_last_name(tmp_path, monkeypatch, written):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.pkl").write_bytes(BAD)
    monkeypatch.chdir(tmp_path)
    verdict = everybit.scan(written)
    assert rules(verdict) == [("PKL201", "a.pkl")]
    assert verdict.target == (written,)


@pytest.mark.parametrize("written", ["", ".", "./", "../job"])
def test_a_folder_means_every_file_in_it(tmp_path, monkeypatch, written):
    job = tmp_path / "job"
    job.mkdir()
    (job / "a.pkl").write_bytes(BAD)
    (job / "b.pkl").write_bytes(BAD)
    monkeypatch.chdir(job)
    assert rules(everybit.scan(written)) == [("PKL201", "a.pkl"), ("PKL201", "b.pkl")]


def test_a_file_twice_is_read_once_and_a_folder_beside_it_too(tmp_path):
    (tmp_path / "a.pkl").write_bytes(BAD)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "b.pkl").write_bytes(BAD)
    again = f"{tmp_path}/./a.pkl"
    verdict = everybit.scan(tmp_path / "a.pkl", again, tmp_path / "job")
    assert rules(verdict) == [("PKL201", "a.pkl"), ("PKL201", "b.pkl")]
    assert verdict.stats["files"] == 2


def test_what_is_no_file_is_refused_in_one_line(tmp_path):
    with pytest.raises(everybit.UsageError, match="no such file"):
        everybit.scan(tmp_path / "none.pkl")
    with pytest.raises(FolderError, match="is a folder; name a file"):
        ByteSource(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(everybit.UsageError, match="not a regular file"):
            everybit.scan(tmp_path / "pipe")


def test_a_file_that_is_written_to_or_replaced_has_changed(tmp_path):
    path = tmp_path / "a.pkl"
    path.write_bytes(BAD)
    with ByteSource(path) as source:
        assert not source.changed()
        os.utime(path, ns=(1, 1))
        assert source.changed()
    with ByteSource(str(path)) as source:
        (tmp_path / "b").write_bytes(BAD)
        (tmp_path / "b").replace(path)
        assert source.changed()
        assert source.path == path
        path.unlink()
        assert source.changed()
        assert source.read(0, 99) == BAD
