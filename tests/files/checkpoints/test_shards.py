from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.files.checkpoints import runs

import everybit
from everybit.core.finding import Severity

KINDS = ("safetensors", "bin")


def load(path):
    return load_file(path) if path.suffix == ".safetensors" else torch.load(path)


def save(tensors, path):
    if path.suffix == ".safetensors":
        save_file(tensors, path, metadata={"format": "pt"})
    else:
        torch.save(tensors, path)


@pytest.fixture(params=KINDS)
def shards(request, tmp_path):
    return runs.save_sharded(tmp_path / "m", runs.llama(), kind=request.param)


def test_a_whole_sharded_model_gives_no_finding(shards, found):
    assert found(shards[0].parent) == set()
    verdict = everybit.verify(shards[0].parent, level="structure")
    assert verdict.ok
    assert {"shards listed by an index"} <= {item.what for item in verdict.coverage.checked}
    index = next(shards[0].parent.glob("*.index.json"))
    assert found(index) == set()


def test_a_missing_shard_is_named(shards, only):
    shards[1].unlink()
    finding = only(shards[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL103", shards[1].name)
    assert finding.evidence["num_tensors"] > 0
    assert shards[1].name in finding.remedy
    index = next(shards[0].parent.glob("*.index.json"))
    assert only(index).rule == "FIL103"


def test_exchanged_shards_are_one_finding_that_names_both(shards, only):
    runs.exchange(shards[0], shards[2])
    for level in ("structure", "full"):
        finding = only(shards[0].parent, level=level)
        assert (finding.rule, finding.where.path) == ("FIL106", shards[0].name)
        assert finding.evidence["holds"] == shards[2].name
        assert shards[2].name in finding.message


def test_a_shard_copied_over_another_is_named(shards, found):
    shards[1].write_bytes(shards[2].read_bytes())
    assert found(shards[0].parent) == {("FIL106", shards[1].name)}


def test_tensors_that_a_shard_lacks_and_that_nobody_lists(shards, found):
    tensors = load(shards[1])
    first = sorted(tensors)[0]
    lost = tensors.pop(first)
    save(tensors, shards[1])
    assert found(shards[0].parent) == {("FIL114", shards[1].name)}
    save(tensors | {first: lost, "model.extra.weight": torch.ones(3)}, shards[1])
    (finding,) = everybit.verify(shards[0].parent).findings
    assert (finding.where.tensor, finding.severity) == ("model.extra.weight", Severity.WARNING)


def test_a_tensor_in_two_shards_is_worse_where_the_two_differ(shards):
    first, second = load(shards[0]), load(shards[1])
    name = sorted(first)[0]
    for other, severity in ((first[name], Severity.WARNING), (first[name] + 1, Severity.ERROR)):
        save(second | {name: other}, shards[1])
        (finding,) = everybit.verify(shards[0].parent).findings
        assert (finding.rule, finding.where.tensor) == ("FIL114", name)
        assert (finding.severity, finding.evidence["also_in"]) == (severity, shards[0].name)


def test_a_tensor_that_lies_in_another_shard_than_listed_is_one_finding(shards, only):
    first, second = load(shards[0]), load(shards[1])
    name = sorted(first)[0]
    second[name] = first.pop(name)
    save(first, shards[0])
    save(second, shards[1])
    finding = only(shards[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL114", shards[0].name)
    assert finding.evidence["found_in"] == {name: shards[1].name}


@pytest.mark.parametrize("change", ["dtype", "shape"])
def test_a_shard_of_another_save_is_told_by_its_layers(shards, only, change):
    held = load(shards[1])
    other = runs.llama(width=16) if change == "shape" else runs.llama(dtype=torch.bfloat16)
    save({name: other[name] for name in held}, shards[1])
    finding = only(shards[0].parent, level="structure")
    assert (finding.rule, finding.where.path) == ("FIL106", shards[1].name)
    assert "model.layers" in finding.where.tensor


def test_a_few_layers_kept_in_another_dtype_are_no_finding(tmp_path, found):
    tensors = runs.llama()
    for name, tensor in tensors.items():
        if "layers" in name and "norm" not in name:
            tensors[name] = tensor.to(torch.bfloat16)
        if "layers.1" in name:
            tensors[name] = tensor.float()
    runs.save_sharded(tmp_path / "m", tensors)
    assert found(tmp_path / "m", level="structure") == set()


def test_a_save_id_in_the_headers_tells_a_stale_shard(tmp_path, only):
    shards = runs.save_sharded(tmp_path / "m", runs.llama())
    for shard, step in zip(shards, ("200", "100", "200"), strict=True):
        save_file(load_file(shard), shard, metadata={"format": "pt", "step": step})
    finding = only(tmp_path / "m")
    assert (finding.rule, finding.where.path) == ("FIL106", shards[1].name)
    assert finding.evidence["value"] == "100"


def test_shards_left_from_another_sharding(shards, only):
    kind = shards[0].suffix
    stem = shards[0].name.partition("-")[0]
    left = shards[0].with_name(f"{stem}-00003-of-00005{kind}")
    left.write_bytes(shards[2].read_bytes())
    finding = only(shards[0].parent)
    assert (finding.rule, finding.where.path) == ("FIL106", left.name)
    assert finding.severity is Severity.WARNING


def test_one_file_beside_the_shards_only_where_it_is_another_model(tmp_path, found):
    shards = runs.save_sharded(tmp_path / "m", runs.llama())
    whole = tmp_path / "m" / "model.safetensors"
    save_file(runs.llama(), whole)
    assert found(tmp_path / "m", level="structure") == set()
    save_file(runs.llama(dtype=torch.bfloat16), whole)
    assert found(tmp_path / "m", level="structure") == {("FIL106", whole.name)}
    assert shards


def test_a_total_that_nothing_gives_is_a_note(shards):
    index = next(shards[0].parent.glob("*.index.json"))
    says = json.loads(index.read_text())
    says["metadata"]["total_size"] += 4
    index.write_text(json.dumps(says))
    (finding,) = everybit.verify(shards[0].parent).findings
    assert (finding.rule, finding.severity) == ("FIL114", Severity.NOTE)


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {}}', "\0",
        '{"weight_map": {"a": "../x", "b": "/y", "c": ""}}', '{"metadata": 3, "weight_map": {}}',
        '{"metadata": {"total_size": -1}, "weight_map": {"a": "a\\u0000b"}}',
        '{"metadata": {"total_size": 1e400}, "weight_map": {"a": "x"}}',
    ],
)  # fmt: skip
def test_hostile_indexes_raise_nothing(tmp_path, text):
    save_file({"a": torch.ones(3)}, tmp_path / "model-00001-of-00001.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(text)
    everybit.verify(tmp_path)
    everybit.verify(tmp_path / "model.safetensors.index.json")
