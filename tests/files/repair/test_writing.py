"""Writing a repaired file: whole or not at all, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from tests.files.parity import losses

import everybit
from everybit.core.errors import PathError
from everybit.files.repair import applying

LEAF = losses.LEAF


@pytest.fixture
def damaged(tmp_path):
    """A sealed folder with parity in which one file has lost a page; its content before."""
    held = losses.fill(tmp_path)
    everybit.seal(tmp_path, parity="30%")
    losses.change(tmp_path / "g.dat", 3 * LEAF, bytes(4096))
    return tmp_path, held


def names(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_dry_run_writes_nothing(damaged):
    folder, _ = damaged
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    verdict = everybit.repair(folder)
    assert verdict.exit_code() == 1
    assert "Can be put back" in verdict.findings[0].message
    assert "PARITY.everybit" in verdict.findings[0].message
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_the_original_is_kept_on_request(damaged):
    folder, held = damaged
    before = (folder / "g.dat").read_bytes()
    assert everybit.repair(folder, write=True, keep=True).exit_code() == 0
    assert (folder / "g.dat.damaged").read_bytes() == before
    losses.change(folder / "g.dat", 3 * LEAF, bytes(4096))
    assert everybit.repair(folder, write=True, keep=True).exit_code() == 0
    assert (folder / "g.dat.1.damaged").read_bytes() == before
    assert losses.content(folder) == held
    assert everybit.verify(folder).ok


@pytest.mark.parametrize("call", ["pwrite", "copy_file_range", "fsync", "ftruncate"])
def test_a_full_disk_leaves_the_original(damaged, monkeypatch, call):
    folder, held = damaged
    before, listed = losses.content(folder), names(folder)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    if call == "copy_file_range":
        # Refused inside the kernel, it is copied byte by byte.
        assert everybit.repair(folder, write=True).exit_code() == 0
        assert losses.content(folder) == held
        return
    with pytest.raises(PathError, match="no space left"):
        everybit.repair(folder, write=True)
    assert losses.content(folder) == before
    assert names(folder) == listed


def test_what_does_not_prove_is_not_put_in_place(damaged, monkeypatch):
    folder, _ = damaged
    before, listed = losses.content(folder), names(folder)
    real = os.pwrite

    def failing(handle, data, offset):
        # A disk that stores something else.
        return real(handle, bytes(len(data)), offset)

    monkeypatch.setattr(os, "pwrite", failing)
    verdict = everybit.repair(folder, write=True)
    assert verdict.exit_code() == 1
    assert "as it was" in verdict.findings[0].message
    assert losses.content(folder) == before
    assert names(folder) == listed


def test_a_kill_leaves_the_original_or_the_repaired(damaged):
    folder, held = damaged
    before = (folder / "g.dat").read_bytes()
    code = textwrap.dedent(
        """
        import os, sys, time
        import everybit
        real = os.fsync
        def slow(handle):
            print("writing", flush=True)
            time.sleep(60)
            real(handle)
        os.fsync = slow
        everybit.repair(sys.argv[1], write=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE)
    assert child.stdout.readline().strip() == b"writing"
    time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert (folder / "g.dat").read_bytes() == before
    # What is left behind is hidden and temporary: neither sealed nor listed.
    assert everybit.repair(folder, write=True).exit_code() == 0
    assert losses.content(folder) == held
    assert everybit.verify(folder).ok


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    held = losses.fill(blobs, {"0a1b": 5 * LEAF})
    (snapshot / "model.dat").symlink_to("../blobs/0a1b")
    everybit.seal(snapshot, parity="30%")
    losses.change(blobs / "0a1b", LEAF + 5, bytes(300))
    assert everybit.repair(snapshot, write=True).exit_code() == 0
    assert (snapshot / "model.dat").is_symlink()
    assert (blobs / "0a1b").read_bytes() == held["0a1b"]
    (blobs / "0a1b").unlink()
    verdict = everybit.repair(snapshot, write=True)
    assert verdict.exit_code() == 1
    assert "link that leads nowhere" in verdict.findings[0].message


def test_a_file_that_changes_meanwhile_is_left_alone(damaged, monkeypatch):
    folder, _ = damaged
    real = applying._put_mends

    def disturbed(handle, mending):
        real(handle, mending)
        losses.change(folder / "g.dat", 0, b"somebody writes")

    monkeypatch.setattr(applying, "_put_mends", disturbed)
    with pytest.raises(PathError, match="changed while"):
        everybit.repair(folder, write=True)
    assert (folder / "g.dat").read_bytes().startswith(b"somebody writes")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_refused(damaged):
    folder, _ = damaged
    (folder / "g.dat").chmod(0o444)
    with pytest.raises(PathError, match="read-only"):
        everybit.repair(folder, write=True)


def test_appended_bytes_are_cut_off(damaged):
    folder, held = damaged
    with (folder / "e.dat").open("ab") as file:
        file.write(b"more" * 50_000)
    verdict = everybit.repair(folder, write=True)
    assert verdict.exit_code() == 0
    assert losses.content(folder) == held
    # They may be a log that went on: nothing is thrown away.
    assert (folder / "e.dat.damaged").read_bytes() == held["e.dat"] + b"more" * 50_000


def test_nothing_sealed_and_nothing_there(tmp_path):
    verdict = everybit.repair(tmp_path)
    assert verdict.exit_code() == 3
    with pytest.raises(PathError, match="does not exist"):
        everybit.repair(tmp_path / "nothing.pt")
    with pytest.raises(PathError, match="nothing to repair"):
        everybit.repair()
