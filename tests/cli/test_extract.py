from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def cut(tmp_path):
    torch.save({"a": torch.arange(20_000.0), "b": torch.arange(20_000.0)}, tmp_path / "whole.pt")
    data = (tmp_path / "whole.pt").read_bytes()
    place = tmp_path / "cut.pt"
    place.write_bytes(data[: len(data) - 60_000])
    return place


def test_saves_what_is_whole_and_says_what_was_lost(cut, tmp_path, run):
    out = tmp_path / "out.safetensors"
    code, text, _ = run("extract", str(cut), "--out", str(out), "--json")
    assert code == 1
    shown = json.loads(text)
    assert [f["rule"] for f in shown["findings"]] == ["FIL104"]
    lost = json.loads((tmp_path / "out.safetensors.lost.json").read_text())
    assert (lost["num_kept"], [one["tensor"] for one in lost["lost"]]) == (1, ["b"])
    from safetensors.torch import load_file

    assert torch.equal(load_file(out)["a"], torch.arange(20_000.0))


def test_never_overwrites(cut, tmp_path, run):
    out = tmp_path / "out.safetensors"
    out.write_text("mine")
    code, _, told = run("extract", str(cut), "--out", str(out))
    assert (code, out.read_text(), len(told.strip().splitlines())) == (2, "mine", 1)
