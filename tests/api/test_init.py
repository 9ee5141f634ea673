"""`init repro`: whole or not at all, and its scripts run at once."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import everybit
from everybit.api import init as module
from everybit.cli import main

WANTED = {
    "README.md", ".gitignore", "configs/baseline.yaml", "data/MANIFEST.everybit.json",
    "data/sample_input.pt", "models/by_pytorch_version/.gitkeep",
    "models/checksum_manifest.tsv", "outputs/.gitkeep", "scripts/checksums.py",
    "scripts/train_debug.py", "scripts/verify_checkpoint.py",
}  # fmt: skip


def _names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _script(folder, name):
    """Return one of the project's scripts as a module, loaded and not run."""
    scripts = str(folder / "scripts")
    spec = importlib.util.spec_from_file_location(name, folder / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, scripts)
    try:
        spec.loader.exec_module(module)
    finally:
        while scripts in sys.path:
            sys.path.remove(scripts)
        sys.modules.pop("checksums", None)
    return module


def _python(folder, *words):
    told = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return told.returncode, told.stdout, told.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project that was trained once."""
    folder = tmp_path_factory.mktemp("made") / "looking"
    everybit.init_repro(folder)
    code, _, err = _python(folder, "scripts/train_debug.py")
    assert code == 0, err
    return folder


def test_the_files_are_there_and_nothing_else(tmp_path):
    made = everybit.init_repro(tmp_path / "new")
    assert _names(tmp_path / "new") == WANTED
    assert {path.relative_to(tmp_path / "new").as_posix() for path in made} == WANTED
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert everybit.verify(tmp_path / "new" / "data").ok


def test_two_projects_are_equal(tmp_path):
    for name in "ab":
        everybit.init_repro(tmp_path / name)
    assert everybit.diff(
        tmp_path / "a/data/sample_input.pt", tmp_path / "b/data/sample_input.pt"
    ).ok


def test_an_empty_folder_is_filled_and_stays_the_one_it_was(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = Path.cwd().stat().st_ino
    assert main(["init", "repro", "."]) == 0
    assert Path.cwd().stat().st_ino == before
    assert _names(tmp_path / "here") == WANTED


@pytest.mark.parametrize("kind", ["full", "file", "no parent", "dangling"])
def test_a_place_that_cannot_be_used_is_one_line_and_untouched(tmp_path, capfd, kind):
    place = tmp_path / "place"
    match kind:
        case "full":
            place.mkdir()
            (place / "mine.txt").write_text("mine")
        case "file":
            place.write_text("mine")
        case "no parent":
            place = tmp_path / "no" / "where"
        case "dangling":
            place.symlink_to(tmp_path / "gone")
    before = sorted(tmp_path.rglob("*"))
    assert main(["init", "repro", str(place)]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert str(place) in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("there", [False, True])
def test_a_failure_halfway_leaves_nothing(tmp_path, monkeypatch, there):
    if there:
        (tmp_path / "new").mkdir()
    else:
        monkeypatch.setattr(module, "_move", _fail)
    before = sorted(tmp_path.rglob("*"))
    if there:
        original = Path.rename

        def rename(self, target):
            if self.name == "scripts":
                raise OSError(28, "No space left on device")
            return original(self, target)

        monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(everybit.UsageError):
        everybit.init_repro(tmp_path / "new")
    monkeypatch.undo()
    assert sorted(tmp_path.rglob("*")) == before


def _fail(*_):
    raise OSError(28, "No space left on device")


def test_without_torch_it_says_so_and_leaves_nothing(tmp_path):
    code, _, err = _python(
        tmp_path,
        "-c",
        "import sys; sys.modules['torch'] = None; from everybit.cli import main;"
        "sys.exit(main(['init', 'repro', 'new']))",
    )
    assert code == 2, err
    assert "need torch" in err
    assert list(tmp_path.iterdir()) == []


def test_it_trains_repeats_and_is_verified(project):
    code, out, err = _python(project, "scripts/train_debug.py", "--run", "outputs/again")
    assert code == 0, err
    assert "step   40  loss" in out
    verdict = everybit.diff(project / "outputs/baseline", project / "outputs/again")
    assert verdict.first is None, verdict.first
    code, out, err = _python(project, "scripts/verify_checkpoint.py")
    assert code == 0, (out, err)
    assert "2 checkpoints: clean" in out
    assert "checksum_manifest.tsv: in step" in out


def test_the_table_follows_the_manifest(project):
    lines = (project / "models/checksum_manifest.tsv").read_text().splitlines()
    (manifest,) = project.glob("models/by_pytorch_version/*/MANIFEST.everybit.json")
    told = json.loads(manifest.read_text())
    rows = [dict(zip(lines[0].split("\t"), line.split("\t"), strict=True)) for line in lines[1:]]
    assert {row["file"]: row["tree"] for row in rows} == {
        name: entry["tree"] for name, entry in told["files"].items()
    }


def test_damage_and_a_stale_table_are_told(project, capsys):
    verify = _script(project, "verify_checkpoint").main
    (checkpoint,) = project.glob("models/by_pytorch_version/*/baseline.pt")
    table = project / "models/checksum_manifest.tsv"
    whole, written = checkpoint.read_bytes(), table.read_text()
    try:
        table.write_text(written.replace("baseline.pt\t40", "baseline.pt\t39"))
        assert verify() == 1
        assert "not in step" in capsys.readouterr().out
        table.write_text(written)
        damaged = bytearray(whole)
        damaged[len(damaged) // 2] ^= 1
        checkpoint.write_bytes(damaged)
        assert verify() == 1
        assert "FIL" in capsys.readouterr().out
    finally:
        checkpoint.write_bytes(whole)
        table.write_text(written)


def test_another_configuration_is_named_by_the_comparison(project):
    config = project / "configs/other.yaml"
    config.write_text((project / "configs/baseline.yaml").read_text().replace("0.003", "0.004"))
    code, _, err = _python(project, "scripts/train_debug.py", "--config", str(config))
    assert code == 0, err
    first = everybit.diff(project / "outputs/baseline", project / "outputs/other").first
    assert first.where.step is not None


def test_a_configuration_that_cannot_be_read_is_told_by_its_line(project, tmp_path):
    read_config = _script(project, "train_debug").read_config
    config = tmp_path / "mine.yaml"
    config.write_text("# mine\nseed: 7  # lucky\nlr: 1e-3\noptimizer: SGD\n")
    assert read_config(config) == {"seed": 7, "lr": 0.001, "optimizer": "SGD"}
    config.write_text("seed: 7\nlr 3\n")
    with pytest.raises(SystemExit, match=r"mine\.yaml:2"):
        read_config(config)


def test_before_a_training_the_check_says_that_it_could_not_check(tmp_path, capsys):
    everybit.init_repro(tmp_path / "new")
    assert _script(tmp_path / "new", "verify_checkpoint").main() == 3
    assert "no checkpoint yet" in capsys.readouterr().out
