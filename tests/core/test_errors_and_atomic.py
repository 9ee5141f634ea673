"""Errors that advise, and files written whole or not at all."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from everybit.core import atomic
from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import DamagedError, EverybitError, PathError, UsageError


def test_an_error_is_one_line_with_what_where_and_what_to_do():
    error = UsageError("is a\nfolder", where="a/b", todo="name a file")
    assert str(error) == error.line() == "a/b: is a folder; name a file"
    assert str(EverybitError("broken")) == "broken"


def test_a_damaged_file_names_its_rule():
    told = DamagedError("cut short", rule="FIL104", where="m.pt").line()
    assert told.startswith("m.pt: cut short (FIL104); ")
    assert "everybit rule FIL104" in told


def test_an_os_error_is_told_with_advice():
    error = PathError.from_os_error(FileNotFoundError(errno.ENOENT, "No such file"), "x")
    assert error.line() == "x: no such file; check the spelling of the path"
    assert PathError.from_os_error(OSError(), "x").line() == "x: oserror"
    taken = PathError.from_os_error(FileExistsError(errno.EEXIST, "File exists"), "x")
    assert taken.line() == "x: file exists; name another place"


def test_the_whole_content_or_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "verdict.json"
    write_atomically(path, b"one")
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o600)

    def fail(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(PathError, match="no space left"):
        write_atomically(path, b"two")
    monkeypatch.undo()
    assert path.read_bytes() == b"one"
    write_atomically(path, b"three")
    assert path.read_bytes() == b"three"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["verdict.json"]


def test_links_are_followed_and_devices_never_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "a"
    target.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    write_atomically(atomic.Path("/dev/null"), b"gone")
    assert not atomic.Path("/dev/null").is_file()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"through")
    reader.join()
    assert seen == [b"through"]


@pytest.mark.parametrize("name", ["", "missing/x", "file/x"])
def test_a_place_that_cannot_be_written_is_known_before(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(PathError):
        check_writable(tmp_path / name)
    with pytest.raises(PathError):
        write_atomically(tmp_path / name, b"x")
    check_writable(tmp_path / "new")
    assert not (tmp_path / "new").exists()
