"""Faults that the campaigns of `bench` found, each held by a test."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
import torch
from bench.subjects import write_tar
from safetensors.torch import save_file

import everybit
from everybit.core.finding import Severity
from everybit.core.verdict import Status


@pytest.mark.parametrize(
    "name",
    ["x" * 3000, "a/" * 3000 + "b", "\ud800", "\0", "../up"],
    ids=["long", "deep", "surrogate", "zero", "up"],
)
def test_an_index_names_what_no_file_can_be_called(tmp_path, name):
    save_file({"w": torch.ones(3)}, tmp_path / "model-1.safetensors")
    index = {"metadata": {}, "weight_map": {"w": "model-1.safetensors", "v": name}}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index), encoding="utf-8")
    verdict = everybit.verify(tmp_path)
    assert verdict.status is not Status.CLEAN
    assert json.dumps(verdict.to_json()).encode()


def test_a_hole_over_most_of_a_file_is_within_the_guarantee(tmp_path):
    # A safetensors file has no checksums: with a hole it is whole by its own format.
    rng = torch.Generator().manual_seed(0)
    for name, rows in (("a", 130), ("b", 600)):
        state = {"w": torch.randn(rows, 1000, generator=rng)}
        save_file(state, tmp_path / f"{name}.safetensors")
    path = tmp_path / "a.safetensors"
    clean = path.read_bytes()
    everybit.seal(tmp_path, parity=0.25)
    path.write_bytes(clean[: 1 << 16] + bytes(5 << 16) + clean[6 << 16 :])
    everybit.repair(tmp_path, write=True)
    assert path.read_bytes() == clean


def test_scattered_damage_over_most_of_a_file_is_within_the_guarantee(tmp_path):
    rng = torch.Generator().manual_seed(0)
    for name in "ab":
        save_file({"w": torch.randn(130, 1000, generator=rng)}, tmp_path / f"{name}.safetensors")
    path = tmp_path / "a.safetensors"
    clean = path.read_bytes()
    everybit.seal(tmp_path, parity="50%")
    damaged = bytearray(clean)
    for leaf in (0, 1, 3, 4, 6):
        for place in range(200, 400, 20):
            damaged[leaf << 16 | place] ^= 0x55
    path.write_bytes(damaged)
    everybit.repair(tmp_path, write=True)
    assert path.read_bytes() == clean


def test_a_model_trained_on_is_not_rolled_back(tmp_path):
    rng = torch.Generator().manual_seed(0)
    state = {name: torch.randn(100, 1000, generator=rng) for name in "abc"}
    path = tmp_path / "a.safetensors"
    save_file(state, path)
    everybit.seal(tmp_path, parity="100%")
    save_file({**state, "a": state["a"] + 1, "b": state["b"] + 1}, path)
    trained = path.read_bytes()
    assert everybit.repair(tmp_path, write=True).status is Status.FINDINGS
    assert path.read_bytes() == trained


@pytest.mark.parametrize("changed", ["shard", "tensor"])
def test_a_damaged_index_that_is_sealed_is_one_damage(tmp_path, changed):
    for number in (1, 2):
        save_file({f"w{number}": torch.ones(3)}, tmp_path / f"model-{number}.safetensors")
    index = {"metadata": {}, "weight_map": {f"w{n}": f"model-{n}.safetensors" for n in (1, 2)}}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index), encoding="utf-8")
    everybit.seal(tmp_path)
    old, new = {"shard": ("model-2", "model-3"), "tensor": ("w2", "v2")}[changed]
    path.write_text(json.dumps(index).replace(old, new), encoding="utf-8")
    findings = everybit.verify(tmp_path).findings
    assert [(f.rule, f.where.path) for f in findings] == [("FIL101", path.name)]


@pytest.mark.parametrize(
    "text",
    ['{"weight_map": {"w": "model-1.saf', "{}", "[]", '{"weight_map": {"w": "a", "w": "b"}}', ""],
    ids=["cut", "no map", "list", "duplicate", "empty"],
)
def test_what_is_no_index_is_a_finding(tmp_path, text):
    save_file({"w": torch.ones(3)}, tmp_path / "model-1.safetensors")
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text, encoding="utf-8")
    found = [(f.rule, f.where.path) for f in everybit.verify(tmp_path).findings]
    assert ("FIL107", path.name) in found


@pytest.mark.parametrize("name", ["pickle", "tensors", "storages", "sys_info"])
def test_a_tar_member_that_stands_twice(tmp_path, name):
    # `torch.load` reads the last of two members of a name.
    path = tmp_path / "model.pt"
    state = {"w": torch.randn(200, 100)}
    write_tar(path, state, list(state.values()))
    everybit.seal(tmp_path)
    assert everybit.verify(tmp_path).status is Status.CLEAN
    with tarfile.open(path, "a") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = 300
        archive.addfile(entry, io.BytesIO(bytes(300)))
    for _ in range(2):
        (finding,) = everybit.verify(tmp_path).findings
        assert finding.severity is Severity.ERROR
        (tmp_path / "MANIFEST.everybit.json").unlink(missing_ok=True)
    assert finding.rule == "FIL107"
