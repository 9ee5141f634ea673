"""BLAKE3 by a child that maps the file: the same digest, and none where it cannot be had."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys

import pytest
from blake3 import blake3

import everybit
from everybit.files import aside, mapped, mapped_child
from everybit.files.aside import hash_file
from everybit.files.mapped import MappedHash, can_map
from everybit.files.passes import no_progress
from everybit.files.source import ByteSource

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files are mapped on Linux only")

SIZE = 3 * 1024 * 1024 + 17


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A file that is large enough, as far as the bound goes, and counts as cached."""
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 1 << 20)
    monkeypatch.setattr(ByteSource, "is_cached", lambda *_: True)
    place = tmp_path / "a.bin"
    place.write_bytes(random.Random(0).randbytes(SIZE))
    return place


def test_the_digest_is_that_of_the_bytes(place, monkeypatch):
    monkeypatch.setattr(mapped, "_is_single_threaded", lambda: False)
    expected = blake3(place.read_bytes()).hexdigest()
    told = []
    with ByteSource(place) as source:
        with MappedHash(source, told.append) as taken:
            assert taken.digest() == expected
        assert sum(told) == SIZE
        assert hash_file(source, ("blake3",), no_progress) == {"blake3": expected}


FORKS = """
import os, sys, threading
import everybit
from everybit.files import cores, mapped, mapped_child
from everybit.files.aside import hash_file
from everybit.files.passes import no_progress
from everybit.files.source import ByteSource

place, told = sys.argv[1], []
mapped.MAPPED_BYTES, mapped_child._STEP_BYTES = 1, 1 << 20
ByteSource.is_cached = lambda *_: True
spawned, mapped._spawned = mapped._spawned, None
"""


def alone(script, place):
    """Run a script in a process of its own, where nothing has started a thread; its words."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS + script, str(place)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done
    return done.stdout.split()


def test_a_process_of_one_thread_forks_for_it(place):
    script = """
print(len(everybit.seal(place)), everybit.verify(place, strong=True).status)
with ByteSource(place) as source, mapped.MappedHash(source, told.append) as taken:
    print(taken.digest(), sum(told))
done = threading.Event(); threading.Thread(target=done.wait).start()
print(mapped._is_single_threaded()); done.set()
"""
    expected = blake3(place.read_bytes()).hexdigest()
    assert alone(script, place) == ["1", "clean", expected, str(SIZE), "False"]


def test_a_forked_process_whose_cores_are_lost_waits_for_none(place):
    script = """
mapped._spawned, mapped.MAPPED_BYTES = spawned, 1 << 40
with ByteSource(place) as source:
    print(hash_file(source, ("blake3",), no_progress)["blake3"], flush=True)
    if os.fork() == 0:
        assert cores.are_lost() and not mapped._is_single_threaded()
        print(hash_file(source, ("blake3",), no_progress)["blake3"], flush=True)
        mapped.MAPPED_BYTES = 1
        print(hash_file(source, ("blake3",), no_progress)["blake3"], flush=True)
        os._exit(0)
    os.wait()
"""
    assert alone(script, place) == 3 * [blake3(place.read_bytes()).hexdigest()]


def test_a_file_that_shrinks_kills_a_fork_alone(place):
    script = """
write = os.write
os.write = lambda *args: (os.truncate(place, 4096), write(*args))
with ByteSource(place) as source:
    with mapped.MappedHash(source, told.append) as taken:
        print(taken.digest(), told[0], sum(told))
    os.write = write
    print(hash_file(source, ("blake3",), no_progress)["blake3"])
"""
    words = alone(script, place)
    assert words == ["None", str(1 << 20), "0", blake3(place.read_bytes()).hexdigest()]
    assert place.stat().st_size == 4096


def test_only_files_that_are_large_and_in_memory(place, monkeypatch):
    with ByteSource(place) as source:
        assert can_map(source)
        monkeypatch.setattr(mapped, "MAPPED_BYTES", SIZE + 1)
        assert not can_map(source)
    monkeypatch.undo()
    with ByteSource(place) as source:
        # A file system that cannot tell, and a file that would have to be fetched.
        for number in (22, 95, 11):
            monkeypatch.setattr(os, "preadv", _fails(number))
            assert not source.is_cached(8)


def _fails(number):
    def preadv(*_):
        raise OSError(number, os.strerror(number))

    return preadv


SHRINKS = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("child", {child!r})
child = importlib.util.module_from_spec(spec)
spec.loader.exec_module(child)
sys.path.append(sys.argv[3])
child._STEP_BYTES = 1 << 20
write = os.write
os.write = lambda *args: (os.truncate({place!r}, 4096), write(*args))
child.main(int(sys.argv[1]), int(sys.argv[2]), 1)
"""


def test_a_file_that_shrinks_kills_the_child_alone(place, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "_is_single_threaded", lambda: False)
    script = tmp_path / "child.py"
    script.write_text(SHRINKS.format(child=mapped_child.__file__, place=str(place)))
    monkeypatch.setattr(mapped, "_CHILD", script)
    told = []
    with ByteSource(place) as source:
        with MappedHash(source, told.append) as taken:
            assert taken.digest() is None
        assert told[0] == 1 << 20
        assert sum(told) == 0
        assert source.changed()
        # What is left of it is read, and here it stays as it is now.
        expected = blake3(place.read_bytes()).hexdigest()
        assert hash_file(source, ("blake3",), told.append) == {"blake3": expected}


@pytest.mark.parametrize("why", ["no process", "another program"])
def test_where_no_child_can_be_had_the_file_is_read(place, monkeypatch, why):
    monkeypatch.setattr(mapped, "_is_single_threaded", lambda: False)
    expected = blake3(place.read_bytes()).hexdigest()
    if why == "no process":

        def refused(*_, **__):
            raise BlockingIOError(11, "no more processes")

        monkeypatch.setattr(subprocess, "Popen", refused)
    else:
        monkeypatch.setattr(sys, "executable", "/bin/echo")
    with ByteSource(place) as source:
        assert hash_file(source, ("blake3",), no_progress) == {"blake3": expected}


@pytest.mark.parametrize("algorithms", [["blake3"], ["blake3", "sha256"]])
def test_a_seal_is_the_same(place, monkeypatch, algorithms):
    sha256 = "sha256" in algorithms
    everybit.seal(place, sha256=sha256)
    manifest = place.parent / "MANIFEST.everybit.json"
    before = everybit.verify(place, strong=True)
    assert before.ok
    one = manifest.read_text()
    manifest.unlink()
    monkeypatch.setattr(mapped, "MAPPED_BYTES", SIZE + 1)
    monkeypatch.setattr(aside, "can_map", lambda _: False)
    everybit.seal(place, sha256=sha256)
    assert _without_times(one) == _without_times(manifest.read_text())
    assert hashlib.sha256(place.read_bytes()).hexdigest() in one or not sha256


def _without_times(text):
    return [line for line in text.splitlines() if "sealed_at" not in line and "digest" not in line]


def test_a_flip_is_found_by_its_digest(place):
    everybit.seal(place)
    data = bytearray(place.read_bytes())
    data[SIZE // 2] ^= 4
    place.write_bytes(data)
    verdict = everybit.verify(place, strong=True)
    assert [finding.rule for finding in verdict.findings] == ["FIL101"]
