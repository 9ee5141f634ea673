from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from tests.files import makers

import everybit
from everybit.cli import main


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*args):
        code = main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        return code, out, err

    return call


def test_seal_then_verify_then_damage(run, checkpoint):
    code, out, err = run("seal", checkpoint.parent)
    assert code == 0
    assert "MANIFEST.everybit.json" in err
    assert "files sealed" in out
    code, out, _ = run("verify", checkpoint.parent)
    assert code == 0
    assert "CLEAN" in out
    makers.flip(checkpoint, checkpoint.stat().st_size // 2, 6)
    code, out, _ = run("verify", checkpoint.parent)
    assert code == 1
    assert "FIL102" in out
    code, out, _ = run("verify", checkpoint, "--json")
    verdict = json.loads(out)
    assert (code, verdict["status"]) == (1, "findings")
    assert verdict["findings"][0]["where"]["path"] == "model.pt"
    assert run("verify", checkpoint, "--exit-zero")[0] == 0


@pytest.mark.parametrize("verb", ["seal", "verify"])
def test_a_missing_path_is_one_line_and_exit_code_2(run, verb):
    code, out, err = run(verb, "missing.pt")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "missing.pt" in err


def test_a_text_file_named_pt_and_a_cut_checkpoint(run, tmp_path, checkpoint):
    (tmp_path / "t.pt").write_text("hello\n")
    code, out, _ = run("verify", tmp_path / "t.pt")
    assert (code, "FIL118" in out) == (1, True)
    code, _, err = run("seal", tmp_path / "t.pt")
    assert (code, err.count("\n")) == (2, 1)
    assert "FIL118" in err
    checkpoint.write_bytes(checkpoint.read_bytes()[:9000])
    code, out, _ = run("verify", checkpoint)
    assert (code, "FIL104" in out) == (1, True)
    code, _, err = run("seal", checkpoint)
    assert (code, err.count("\n")) == (2, 1)
    assert "FIL104" in err


def test_exit_code_3_where_nothing_vouches_for_the_bytes(run, tmp_path):
    from safetensors.torch import save_file

    save_file({"w": torch.ones(3)}, tmp_path / "m.safetensors")
    assert run("verify", "m.safetensors")[0] == 3
    assert run("verify", "m.safetensors", "--level", "structure")[0] == 0
    assert run("verify", "m.safetensors", "--level", "deep")[0] == 2


def test_an_unwritable_folder_is_one_line(run, tmp_path):
    makers.save({"w": torch.ones(3)}, tmp_path / "m.pt")
    (tmp_path / "MANIFEST.everybit.json").mkdir()
    code, _, err = run("seal", "m.pt")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("verb", ["seal", "verify"])
def test_the_verbs_load_no_torch(verb, checkpoint):
    script = (
        f"import sys; from everybit.cli import main; code = main(['{verb}', {str(checkpoint)!r}]);"
        "assert code == 0, code; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)


def test_long_reads_draw_a_bar_and_short_ones_none(monkeypatch, tmp_path, capsys):
    from types import SimpleNamespace

    from everybit.cli import progress

    path = tmp_path / "f"
    path.write_bytes(bytes(1000))
    watched = SimpleNamespace(shows_progress=True)
    with progress.reading(watched, "verifying", [path]) as tell:
        tell(1000)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "_LONG_BYTES", 100)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.reading(watched, "verifying", [tmp_path, tmp_path / "gone"]) as tell:
        tell(1000)
    assert "verifying" in capsys.readouterr().err
    with progress.reading(SimpleNamespace(shows_progress=False), "x", [path]) as tell:
        tell(1000)
    assert capsys.readouterr().err == ""


def test_a_path_given_twice_is_told_once(tmp_path):
    path = makers.save(makers.weights(), tmp_path / "model.pt")
    makers.flip(path, path.stat().st_size // 2, 3)
    once = everybit.verify(path)
    twice = everybit.verify(path, f"{tmp_path}/./model.pt")
    assert [f.message for f in twice.findings] == [f.message for f in once.findings]
    assert len(everybit.repair(path, str(path)).findings) == 1


@pytest.mark.parametrize("verb", [["verify"], ["seal"], ["repair"], ["extract", "--out", "x"]])
def test_an_empty_path_is_not_the_folder_one_is_in(verb, tmp_path, monkeypatch, capsys):
    makers.save(makers.weights(), tmp_path / "model.pt")
    monkeypatch.chdir(tmp_path)
    assert main([*verb, ""]) == 2
    told = capsys.readouterr().err
    assert "the path is empty" in told
    assert told.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_a_name_that_is_no_unicode(tmp_path):
    whole = makers.save(makers.weights(), tmp_path / "model.pt").read_bytes()
    path = tmp_path / os.fsdecode(b"bad\xff.pt")
    path.write_bytes(whole)
    everybit.seal(tmp_path, sha256=True, parity="60%")
    assert everybit.verify(tmp_path).ok
    makers.flip(path, len(whole) // 2, 3)
    assert everybit.verify(tmp_path).findings[0].where.path == path.name
    assert everybit.repair(tmp_path, write=True).exit_code() == 0
    assert path.read_bytes() == whole


def test_parity_named_means_its_folder(tmp_path):
    makers.save(makers.weights(), tmp_path / "model.pt")
    everybit.seal(tmp_path, parity="60%")
    assert everybit.verify(tmp_path / "PARITY.everybit").ok
