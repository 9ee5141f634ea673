"""Runs that part, computed again: the operation, its values, and what follows from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import everybit
from everybit.api.zoom_overlay import Overlay
from everybit.api.zoom_side import Program
from everybit.api.zoom_take import Take
from everybit.core.observation import StepRecord
from everybit.host.read_files import digest_of

TRAIN = """
import os
import sys
from pathlib import Path

import torch

fault = sys.argv[1] if len(sys.argv) > 1 else ""
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(256, 2048), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(2048, 8)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def damage(_module, _args, output):
    if step == 2 and fault == "activation":
        output.detach().numpy().view("int32")[3, 7] ^= 1 << 20


model[1].register_forward_hook(damage)
print(f"{os.getpid()} trains")
for step in range(4):
    loss = model(torch.randn(64, 256)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.save(model.state_dict(), "last.pt")
    Path("log.txt").open("a").write(f"{step}\\n")
"""
# Each is a handful of processes that import torch: slow where many others want the cores.
pytestmark = pytest.mark.timeout(1800)

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoom")
    (folder / "train.py").write_text(TRAIN)
    _run(folder, "clean")
    return folder


def _run(folder: Path, name: str, *arguments: str) -> None:
    asked = [sys.executable, "-m", "everybit", "run", "-q", "--run", f"runs/{name}", "train.py"]
    subprocess.run(
        [*asked, *arguments], cwd=folder, check=True, env=ONE_THREAD, capture_output=True
    )


def _zoom(folder: Path, name: str, *arguments: str) -> Any:
    _run(folder, name, *arguments)
    return everybit.diff(folder / "runs/clean", folder / f"runs/{name}", zoom=True)


def test_a_flipped_activation_is_found_with_its_element_and_both_values(folder: Path) -> None:
    log = (folder / "log.txt").read_text()
    verdict = _zoom(folder, "activation", "activation")
    zoom = verdict.findings[0].evidence["zoom"]
    assert verdict.first.kind == "corruption"
    assert (verdict.first.where.step, verdict.first.where.module) == (2, "1")
    assert zoom["how"] == "carried"
    assert zoom["name"] == "the result of aten.tanh.default in 1"
    assert (zoom["elements"], zoom["num_differing"]) == ([3 * 2048 + 7], 1)
    assert zoom["max_ulp"] == 1 << 20
    assert zoom["value_a"] != zoom["value_b"]
    # What the programs write when they run again is kept apart.
    assert (folder / "log.txt").read_text() == log + "0\n1\n2\n3\n"
    assert sorted(each.name for each in (folder / "runs").iterdir()) == ["activation", "clean"]
    assert len(list((folder / "runs/clean").glob("rank-*"))) == 1


def test_files_have_nothing_to_zoom_into(folder: Path) -> None:
    last = folder / "last.pt"
    with pytest.raises(everybit.UsageError, match="only runs are computed again"):
        everybit.diff(last, last, zoom=True)


def test_the_overlay_takes_what_is_written_and_gives_it_back(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("first")
    (tmp_path / "gone.txt").write_text("first")
    script = """
import json, os, sys
from pathlib import Path
from everybit.api.zoom_overlay import Overlay

Overlay(Path("beside"), (Path("beside"),)).install()
with open("kept.txt", "a") as file:
    file.write(" and more")
Path("new.tmp").write_text("new")
os.replace("new.tmp", "new.txt")
os.remove("gone.txt")
print(json.dumps([open("kept.txt").read(), Path("new.txt").read_text()]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == ["first and more", "new"]
    assert (tmp_path / "kept.txt").read_text() == "first"
    assert (tmp_path / "gone.txt").exists()
    assert not (tmp_path / "new.txt").exists()
    # Neither what it made, nor what it added to, is a file that it read of the first run's.
    assert not (tmp_path / "beside" / ".reads").exists()


def test_a_file_that_was_changed_after_the_run_is_told_of_a_computation(tmp_path: Path) -> None:
    for name, time_s in (("before", 50.0), ("since", 150.0), ("own", 250.0)):
        (tmp_path / name).write_text("1")
        os.utime(tmp_path / name, (time_s, time_s))
    folder = tmp_path / "take"
    overlay = Overlay(folder / "files", (folder,))
    for name in ("before", "since", "own", "since", "missing"):
        assert overlay.place_read(tmp_path / name) == tmp_path / name
    assert overlay.place_read(0) == 0
    (folder / "spec.json").write_text("{}")
    os.utime(folder / "spec.json", (200.0, 200.0))
    record = StepRecord(step=0, time_s=0.0, duration_s=0.0, guard_s=0.0)
    done = Take(name="A-1", folder=folder, record=record, settings={})
    assert done.changed_after(100.0) == [tmp_path / "since"]
    assert done.changed_after(160.0) == []
    # One whose bytes are on record is held against them, whatever its time says.
    then = {"before": digest_of(tmp_path / "before"), "since": digest_of(tmp_path / "since")}
    assert done.changed_after(100.0, lambda path: then.get(path.name)) == []
    (tmp_path / "before").write_text("2")
    os.utime(tmp_path / "before", (50.0, 50.0))
    assert done.changed_after(100.0, lambda path: then.get(path.name)) == [tmp_path / "before"]


def test_a_file_goes_by_its_recorded_name(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    program = Program(
        target="src/train.py", args=(), module=False, folder=tmp_path, outer=True, run_name="",
        settings={}, script=tmp_path / "src" / "train.py",
        files={"cfg.json": "aa", "data/labels.txt": "bb"},
    )  # fmt: skip
    assert program.recorded(tmp_path / "src" / "cfg.json") == "aa"
    assert program.recorded(tmp_path / "data" / "labels.txt") == "bb"
    assert program.recorded(tmp_path / "data" / "cfg.json") is None


def test_the_overlay_leaves_descriptors_and_devices_alone(tmp_path: Path) -> None:
    overlay = Overlay(tmp_path, ())
    assert overlay.place(3, writes=True) == 3
    assert overlay.place("/dev/null", writes=True) == "/dev/null"
    if Path("/dev/shm").is_dir():
        assert overlay.place("/dev/shm/x", writes=True) == str(tmp_path / "dev/shm/x")
