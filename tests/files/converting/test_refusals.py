"""What is refused, with which rule, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from tests.files import makers
from tests.files.formats.dcp_maker import save_dcp

import everybit
from everybit.core.errors import DamagedError, PathError, UsageError
from everybit.files.converting import proving


class Runs:
    """Would print when it is loaded."""

    def __reduce__(self):
        return print, ("loaded",)


class Shell:
    """Would run a harmless command when it is loaded."""

    def __reduce__(self):
        return os.system, ("echo loaded",)


def refused(src, out, kind=DamagedError, **options):
    """Return the line that refuses; nothing may be left, with a file as with a folder."""
    before = sorted(p.name for p in out.parent.iterdir())
    lines = []
    for place in (out.with_suffix(".safetensors"), out):
        with pytest.raises(kind) as told:
            everybit.convert(src, place, **options)
        lines.append(told.value)
        assert sorted(p.name for p in out.parent.iterdir()) == before
    return lines[0]


@pytest.fixture
def out(tmp_path):
    (tmp_path / "there").mkdir()
    return tmp_path / "there" / "new"


@pytest.mark.parametrize("new", [True, False])
def test_a_hostile_file_is_refused_with_its_rule(tmp_path, out, new, capfd):
    value = {"w": torch.ones(3), "x": Shell()}
    path = makers.save(value, tmp_path / "m.pt", _use_new_zipfile_serialization=new)
    error = refused(path, out)
    assert error.rule == "PKL201"
    assert "system" in str(error)
    assert "loaded" not in capfd.readouterr().out


def test_a_hostile_bare_pickle_and_a_hostile_metadata(tmp_path, out):
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"a": Shell()}))
    assert refused(tmp_path / "m.pkl", out).rule == "PKL201"
    save_dcp({"w": torch.ones(3), "x": Shell()}, tmp_path / "value")
    assert refused(tmp_path / "value", out).rule == "PKL201"
    save_dcp({"w": torch.ones(3)}, tmp_path / "dcp")
    (tmp_path / "dcp" / ".metadata").write_bytes(pickle.dumps(Shell()))
    assert refused(tmp_path / "dcp", out).rule == "PKL201"


def test_one_hostile_file_of_a_folder_is_enough(tmp_path, out):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    makers.save({"w": torch.ones(3)}, folder / "model.pt")
    makers.save({"x": Shell()}, folder / "scheduler.pt")
    with pytest.raises(DamagedError, match="PKL201"):
        everybit.convert(folder, out)
    assert not list(out.parent.iterdir())


def test_damage_is_refused_with_its_rule(tmp_path, out):
    path = makers.save({"w": torch.randn(5000), "v": torch.ones(3)}, tmp_path / "m.pt")
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("m/data/0").header_offset + 5000
    makers.flip(path, at)
    assert refused(path, out).rule == "FIL108"
    path.write_bytes(whole[: len(whole) // 2])
    assert refused(path, out).rule == "FIL104"
    path.write_bytes(whole[:100] + bytes(64) + whole[164:])
    assert refused(path, out).rule in ("FIL107", "FIL108", "PKL203")


def test_what_is_no_checkpoint(tmp_path, out):
    (tmp_path / "empty.pt").touch()
    assert refused(tmp_path / "empty.pt", out).rule == "FIL118"
    (tmp_path / "page.pt").write_text("<!doctype html><html></html>")
    assert refused(tmp_path / "page.pt", out).rule == "FIL118"
    assert "check the spelling" in str(refused(tmp_path / "gone.pt", out, PathError))
    (tmp_path / "folder").mkdir()
    assert "holds no torch file" in str(refused(tmp_path / "folder", out, PathError))
    from safetensors.torch import save_file

    save_file({"a": torch.ones(1)}, tmp_path / "s.safetensors")
    assert "safetensors already" in str(refused(tmp_path / "s.safetensors", out, PathError))
    with zipfile.ZipFile(tmp_path / "z.pt", "w") as archive:
        archive.writestr("a.txt", "x")
    refused(tmp_path / "z.pt", out, (PathError, DamagedError))


def test_what_is_no_regular_file(out):
    assert "is not a regular file" in str(refused(Path("/dev/null"), out, PathError))


def test_bytes_behind_a_bare_pickle(tmp_path, out):
    (tmp_path / "m.pkl").write_bytes(pickle.dumps([1]) + pickle.dumps([2]))
    assert "after its pickle" in str(refused(tmp_path / "m.pkl", out, PathError))


def test_nothing_is_overwritten(tmp_path):
    path = makers.save({"w": torch.ones(2)}, tmp_path / "m.pt")
    for name in ("m.safetensors", "m.state.json", "folder"):
        place = tmp_path / name
        place.write_text("mine")
        out = tmp_path / ("folder" if name == "folder" else "m.safetensors")
        with pytest.raises(PathError, match="exists already"):
            everybit.convert(path, out)
        assert place.read_text() == "mine"
        place.unlink()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PathError, match="exists already"):
        everybit.convert(path, tmp_path / "link")
    with pytest.raises(PathError, match="does not exist"):
        everybit.convert(path, tmp_path / "no" / "folder")


def test_a_folder_of_files_needs_a_folder(tmp_path):
    makers.save({"w": torch.ones(2)}, tmp_path / "a.pt")
    makers.save({"w": torch.ones(2)}, tmp_path / "b.pt")
    with pytest.raises(UsageError, match="name a new folder"):
        everybit.convert(tmp_path, tmp_path / "m.safetensors")


@pytest.mark.parametrize("size", ["0", "-1", "5XB", "GB", "1e9", "", "0.1B", "9" * 30])
def test_sizes_that_are_none(size, tmp_path):
    path = makers.save({"w": torch.ones(2)}, tmp_path / "m.pt")
    with pytest.raises(UsageError, match="max-shard-size"):
        everybit.convert(path, tmp_path / "out", max_shard_size=size)


def test_an_index_that_does_not_hold(tmp_path, out):
    folder = tmp_path / "model"
    folder.mkdir()
    makers.save({"a": torch.ones(2)}, folder / "one.bin")
    makers.save({"a": torch.ones(2), "b": torch.ones(1)}, folder / "two.bin")

    def listed(**names):
        place = folder / "pytorch_model.bin.index.json"
        place.write_text(json.dumps({"weight_map": names}))
        return refused(place, out).rule

    assert listed(a="one.bin", c="two.bin") == "FIL114"
    assert listed(a="one.bin", b="two.bin") == "FIL114"
    assert listed(a="one.bin", b="gone.bin") == "FIL103"
    assert listed(a="one.bin", b="../two.bin") in ("FIL107", "PKL203")


def test_a_dcp_folder_that_lacks_a_file(tmp_path, out):
    save_dcp({"w": torch.ones(3)}, tmp_path / "dcp")
    data = tmp_path / "dcp" / "__0_0.distcp"
    whole = data.read_bytes()
    data.unlink()
    assert refused(tmp_path / "dcp", out).rule == "FIL103"
    data.write_bytes(whole)
    (tmp_path / "dcp" / ".metadata").unlink()
    assert refused(tmp_path / "dcp", out).rule == "FIL103"


# -- a disk that fails, a process that dies ---------------------------------------------------


def test_a_full_disk_is_told_before_the_work(tmp_path, out, monkeypatch):
    path = makers.save({"w": torch.ones(3000)}, tmp_path / "m.pt")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Disk", (), {"free": 5}))
    assert "are free" in str(refused(path, out, PathError))


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4])
def test_a_disk_that_fails_on_the_way_leaves_nothing(tmp_path, out, monkeypatch, after):
    path = makers.save({f"w{n}": torch.ones(300) for n in range(5)}, tmp_path / "m.pt")
    real, calls = os.fsync, []

    def fsync(handle):
        calls.append(handle)
        if len(calls) > after:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    for place in (out, out.with_suffix(".safetensors")):
        calls.clear()
        with pytest.raises(PathError, match="no space left"):
            everybit.convert(path, place, max_shard_size=2000)
        assert not list(out.parent.iterdir())


def test_ctrl_c_leaves_nothing(tmp_path, out):
    path = makers.save({"w": torch.ones(300_000)}, tmp_path / "m.pt")
    for stop_at in (1, 3, 5, 7):
        told = []

        def progress(_, told=told, stop_at=stop_at):
            told.append(1)
            if len(told) >= stop_at:
                raise KeyboardInterrupt

        refused(path, out, KeyboardInterrupt, progress=progress)


def test_what_the_disk_gives_back_is_compared(tmp_path, out, monkeypatch):
    """A bit that flips between writing and reading back is seen, whichever it is."""
    path = makers.save({"w": torch.randn(2000), "t": torch.randn(9, 9).t()}, tmp_path / "m.pt")
    real = proving._forget
    for at in (-1, -4000, -8000):

        def flip(place, at=at):
            data = bytearray(place.read_bytes())
            data[at] ^= 1
            place.write_bytes(data)
            real(place)

        monkeypatch.setattr(proving, "_forget", flip)
        assert "not what was written" in str(refused(path, out, PathError))


def test_a_source_that_changes_is_refused(tmp_path, out, monkeypatch):
    path = makers.save({"w": torch.ones(2000)}, tmp_path / "m.pt")
    real = proving._forget

    def touch(place):
        os.utime(path, ns=(1, 1))
        real(place)

    monkeypatch.setattr(proving, "_forget", touch)
    assert "changed" in str(refused(path, out, PathError))


def test_a_killed_process_leaves_no_name(tmp_path, out):
    import subprocess
    import sys

    path = makers.save({"w": torch.ones(300_000)}, tmp_path / "m.pt")
    for place in (out, out.with_suffix(".safetensors")):
        code = f"""
import os, everybit
from everybit.files.converting import proving
proving._forget = lambda place: os.kill(os.getpid(), 9)
everybit.convert({str(path)!r}, {str(place)!r})
"""
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
        assert not place.exists()
        assert not list(out.parent.glob("*.json"))
        everybit.convert(path, place)
        everybit.restore(place)


# -- pickles made to exhaust ------------------------------------------------------------------


def _bare(body, path):
    path.write_bytes(b"\x80\x04" + body + b".")
    return path


def test_shared_containers_cost_no_more_than_the_pickle(tmp_path):
    # Each level holds the one below twice: 2^200 paths.
    body = b"](K\x01e\x94"
    for level in range(200):
        body += b"h" + bytes([level]) + b"\x86\x94"
    out = tmp_path / "a.safetensors"
    everybit.convert(_bare(body, tmp_path / "m.pkl"), out)
    found = everybit.restore(out)
    for _ in range(200):
        assert found[0] is found[1]
        found = found[0]


def test_deep_nesting_costs_no_stack(tmp_path):
    depth = 10_000
    path = _bare(b"]" * depth + b"a" * (depth - 1), tmp_path / "m.pkl")
    everybit.convert(path, tmp_path / "a.safetensors")
    found = everybit.restore(tmp_path / "a.safetensors")
    count = 0
    while found:
        found = found[0]
        count += 1
    assert count == depth - 1


def test_deep_tuples_cost_no_stack(tmp_path):
    path = _bare(b")" + b"\x85" * 5_000, tmp_path / "m.pkl")
    everybit.convert(path, tmp_path / "a.safetensors")
    found = everybit.restore(tmp_path / "a.safetensors")
    for _ in range(5_000):
        (found,) = found
    assert found == ()
