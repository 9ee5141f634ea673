from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


class Shell:
    """Would run a harmless command when it is loaded."""

    def __reduce__(self):
        return os.system, ("echo loaded",)


@pytest.fixture
def checkpoint(tmp_path):
    place = tmp_path / "model.pt"
    torch.save({"w": torch.arange(6.0), "lr": 0.1, "tied": torch.arange(6.0)[2:4]}, place)
    return place


def test_writes_the_file_and_its_sidecar(checkpoint, tmp_path, run):
    out = tmp_path / "model.safetensors"
    code, text, told = run("convert", str(checkpoint), "--out", str(out), "--json")
    assert code == 0
    assert "everybit.restore" in told
    shown = json.loads(text)
    assert (shown["command"], shown["status"]) == ("convert", "clean")
    assert shown["stats"]["files"] == ["model.safetensors", "model.state.json"]
    from safetensors.torch import load_file

    assert torch.equal(load_file(out)["w"], torch.arange(6.0))
    state = json.loads((tmp_path / "model.state.json").read_text())
    assert (state["schema"], state["tree"]["lr"]) == ("everybit.state/1", 0.1)


def test_shards_into_a_folder(checkpoint, tmp_path, run):
    code, text, _ = run(
        "convert", str(checkpoint), "--out", str(tmp_path / "new"), "--max-shard-size", "20B"
    )
    assert code == 0
    assert "bit for bit" in text
    assert (tmp_path / "new" / "model.safetensors.index.json").exists()


def test_never_overwrites(checkpoint, tmp_path, run):
    out = tmp_path / "out.safetensors"
    out.write_text("mine")
    code, _, told = run("convert", str(checkpoint), "--out", str(out))
    assert (code, out.read_text(), len(told.strip().splitlines())) == (2, "mine", 1)


@pytest.mark.parametrize("words", [(), ("--max-shard-size", "x")])
def test_bad_requests_are_one_line(checkpoint, tmp_path, run, words):
    place = tmp_path / "gone.pt" if not words else checkpoint
    code, _, told = run("convert", str(place), "--out", str(tmp_path / "o"), *words)
    assert (code, len(told.strip().splitlines())) == (2, 1)


def test_a_hostile_file_is_exit_code_2_and_one_line(tmp_path, run, capfd):
    torch.save({"w": torch.ones(2), "x": Shell()}, tmp_path / "bad.pt")
    code, text, told = run("convert", str(tmp_path / "bad.pt"), "--out", str(tmp_path / "new"))
    assert (code, text, len(told.strip().splitlines())) == (2, "", 1)
    assert "PKL201" in told
    assert not (tmp_path / "new").exists()


def test_an_unknown_class_is_a_warning_and_exit_code_0(tmp_path, run):
    torch.save({"layer": torch.nn.Linear(2, 2), "fn": Shell}, tmp_path / "m.pt")
    code, text, _ = run("convert", str(tmp_path / "m.pt"), "--out", str(tmp_path / "new"), "--json")
    shown = json.loads(text)
    assert code == 0
    assert {f["severity"] for f in shown["findings"]} <= {"warning", "note"}
    assert shown["stats"]["records"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_a_large_checkpoint_takes_little_memory(tmp_path):
    """Half a gigabyte of tensors, some strided, in a bounded process; and torch is not needed."""
    place = tmp_path / "large.pt"
    big = torch.zeros(64 << 20)
    big[::1000] = torch.arange(len(big[::1000]))
    torch.save({"big": big, "t": torch.randn(2000, 4000).t(), "small": torch.ones(3)}, place)
    del big
    code = f"""
import sys
from everybit.cli import main
code = main(["convert", {str(place)!r}, "--out", {str(tmp_path / "o.safetensors")!r}, "-q"])
assert "torch" not in sys.modules
# Not the resource module's figure, which a process takes over from the one that started it.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(code, int(status["VmHWM"].split()[0]) // 1024)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    exit_code, megabytes = map(int, told.stdout.split()[-2:])
    assert exit_code == 0
    assert megabytes < 300
