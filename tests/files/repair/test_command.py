"""`everybit repair` on the command line: what it prints, and its exit codes."""

from __future__ import annotations

import json

import pytest
from tests.files import makers
from tests.files.parity import losses

from everybit.cli import main


@pytest.fixture
def folder(tmp_path, capsys):
    losses.fill(tmp_path, {"a.dat": 300_000, "b.dat": 70_000})
    assert main(["seal", str(tmp_path), "--parity", "50%"]) == 0
    told = capsys.readouterr().err
    assert "parity: " in told
    assert "contiguous loss of up to" in told
    return tmp_path


def test_a_dry_run_and_then_the_repair(folder, capsys):
    good = (folder / "a.dat").read_bytes()
    assert main(["repair", str(folder)]) == 0
    losses.change(folder / "a.dat", 1000, bytes(4096))
    assert main(["repair", str(folder)]) == 1
    told = capsys.readouterr().out
    assert "Can be put back" in told
    assert "Run the same command with --write." in told
    assert main(["repair", str(folder), "--write", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["command"] == "repair"
    assert [each["severity"] for each in verdict["findings"]] == ["note"]
    assert verdict["findings"][0]["evidence"]["repaired_from"] == ["parity"]
    assert verdict["stats"]["files_repaired"] == 1
    assert (folder / "a.dat").read_bytes() == good
    assert main(["verify", str(folder)]) == 0


def test_bad_requests_are_one_line(folder, capsys):
    capsys.readouterr()
    for words in (
        ["repair", str(folder / "none.pt")],
        ["repair", str(folder), "--from", str(folder / "nowhere")],
        ["seal", str(folder), "--parity", "5"],
        ["seal", str(folder), "--parity", "1%", "--parity-code", "rs"],
        ["seal", str(folder), "--parity-code", "rs"],
        ["seal", str(folder), "--parity", "900%"],
    ):
        assert main(words) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert len(told.err.strip().splitlines()) == 1


def test_a_weak_repair_asks_first(tmp_path, capsys):
    import torch

    place = tmp_path / "alone" / "run"
    place.mkdir(parents=True)
    path = makers.save({"w": torch.randn(300, 200)}, place / "m.pt")
    good = path.read_bytes()
    makers.flip(path, len(good) // 2, 2)
    assert main(["repair", str(path), "--write"]) in (0, 1)
    if path.read_bytes() != good:
        assert "--accept-weak" in " ".join(capsys.readouterr().out.split())
        assert main(["repair", str(path), "--write", "--accept-weak"]) == 0
    assert path.read_bytes() == good


@pytest.mark.parametrize(
    "words", [["--parity", "150%"], ["--parity", "10%", "--parity-code", "rs"]]
)
def test_without_pyeclib_reed_solomon_says_what_to_install(folder, words, monkeypatch, capsys):
    import sys

    from everybit.files.parity import coding

    coding._driver.cache_clear()
    monkeypatch.setitem(sys.modules, "pyeclib.ec_iface", None)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["seal", str(folder), *words]) == 2
    assert "everybit[parity]" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
