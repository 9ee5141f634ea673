"""Small files that a program reads: which are on record, and that reading stays as it was."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path

import pytest

from everybit.host import read_files as module
from everybit.host.read_files import MAX_BYTES, MAX_FILES, MAX_OTHERS, ReadFiles, name_of

_LISTENING = ReadFiles()


@pytest.fixture
def noted(tmp_path, monkeypatch):
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    _LISTENING.listen(script="train.py", whole=True)
    yield _LISTENING
    _LISTENING.rest(ended=True)


def _word(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(name: str, text: str = "{}") -> Path:
    """Write a file as another program would: past the record."""
    path = Path(name)
    _LISTENING.rest()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    _LISTENING.listen()
    return path


def test_what_is_read_is_noted_by_path_and_digest(noted) -> None:
    _write("cfg.json", '{"lr": 0.1}')
    _write("conf/base.yaml", "lr: 1")
    _write("vocab.txt", "a\nb")
    with open("cfg.json") as file:  # noqa: PTH123 - as people write it
        assert json.load(file) == {"lr": 0.1}
    assert Path("conf/base.yaml").read_text() == "lr: 1"
    assert Path("vocab.txt").resolve().read_bytes() == b"a\nb"
    assert noted.to_json() == {
        "files": {
            "cfg.json": _word('{"lr": 0.1}'),
            "conf/base.yaml": _word("lr: 1"),
            "vocab.txt": _word("a\nb"),
        },
        "whole": True,
    }


def test_a_digest_follows_the_bytes_and_nothing_else_is_kept(noted) -> None:
    path = _write("cfg.json", "before")
    path.read_text()
    first = noted.to_json()
    _write("cfg.json", "after!")
    path.read_text()
    assert noted.digests == {"cfg.json": _word("after!")}
    assert "before" not in json.dumps(first)


def test_a_file_beside_the_program_is_named_from_it(noted, tmp_path, monkeypatch) -> None:
    _write("../shared/cfg.toml").read_text()
    _write("x.json")
    monkeypatch.chdir(tmp_path)
    Path("project/x.json").read_text()
    assert set(noted.digests) == {"../shared/cfg.toml", "x.json"}


def test_a_file_far_from_the_program_is_named_by_its_folder(noted) -> None:
    assert name_of("/data/sets/words/vocab.txt", noted._roots) == "*/words/vocab.txt"
    assert name_of("/usr/share/words/vocab.txt", noted._roots) is None
    assert name_of("/data/.hidden/vocab.txt", noted._roots) is None


@pytest.mark.parametrize(
    "name",
    [
        "model.py",
        "out/train.log",
        "api_token.txt",
        "server.pem",
        ".env",
        ".cache/settings.json",
        "venv/lib/python3.11/site-packages/torch/version.json",
    ],
)
def test_what_is_no_configuration_is_left_out(noted, name) -> None:
    assert _write(name).read_text() == "{}"
    assert noted.digests == {}


def test_files_of_the_run_record_and_of_the_system_are_left_out(noted) -> None:
    _write("runs/a/run.json").read_text()
    _write("runs/a/notes.json").read_text()
    if Path("/proc/cpuinfo").exists():
        Path("/proc/cpuinfo").read_bytes()
    assert noted.digests == {}


def test_what_is_large_or_a_folder_or_a_pipe_is_left_out(noted) -> None:
    _write("data.csv", "x" * (MAX_BYTES + 1)).read_text()
    os.mkfifo("pipe")
    held = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.close(held)
    with pytest.raises(IsADirectoryError):
        open(".")  # noqa: PTH123, SIM115
    assert noted.digests == {}


def test_what_the_program_wrote_itself_is_left_out(noted) -> None:
    Path("cache.json").write_text("{}")
    assert Path("cache.json").read_text() == "{}"
    assert noted.digests == {}


def test_reading_fails_as_it_did(noted) -> None:
    with pytest.raises(FileNotFoundError):
        Path("gone.json").read_text()
    with pytest.raises(ValueError, match="null byte"):
        open("a\0b")  # noqa: PTH123, SIM115
    assert noted.digests == {}


def test_a_fault_of_the_record_is_no_fault_of_the_program(noted, monkeypatch) -> None:
    path = _write("cfg.json")
    monkeypatch.setattr(module.hashlib, "sha256", None)
    assert path.read_text() == "{}"


def test_many_files_are_data(noted) -> None:
    for number in range(MAX_OTHERS + 3):
        _write(f"images/{number}.jpg").read_bytes()
    assert (len(noted.digests), noted.num_more) == (MAX_OTHERS, 3)
    for number in range(MAX_FILES):
        _write(f"texts/{number}.txt").read_bytes()
    assert len(noted.digests) == MAX_FILES
    assert noted.to_json()["more"] == 3 + MAX_OTHERS


def test_at_rest_nothing_is_noted_and_the_next_program_begins_anew(noted) -> None:
    path = _write("cfg.json")
    noted.rest()
    path.read_text()
    assert noted.digests == {}
    noted.listen()
    path.read_text()
    assert set(noted.digests) == {"cfg.json"}
    noted.rest(ended=True)
    assert not noted.whole
    noted.listen(whole=True)
    assert noted.digests == {}


def test_other_threads_are_heard_and_other_processes_are_not(noted) -> None:
    path = _write("cfg.json")
    thread = threading.Thread(target=path.read_text)
    thread.start()
    thread.join()
    assert set(noted.digests) == {"cfg.json"}
    _write("other.json")
    noted._pid += 1
    Path("other.json").read_text()
    assert set(noted.digests) == {"cfg.json"}
