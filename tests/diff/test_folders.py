"""Folders of model files: which belong together, and is one a copy of the other."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import save_file

from everybit.api.diff import diff
from everybit.core.errors import PathError


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {f"h.{k}.{part}": torch.randn(32, 16) for k in range(3) for part in ("q", "v")}


@pytest.fixture
def source(tmp_path, weights):
    """A sharded checkpoint with what stands beside it."""
    folder = tmp_path / "src"
    write_sharded(folder, weights, 2)
    (folder / "config.json").write_text(json.dumps({"hidden": 16, "layers": 3}))
    (folder / "tokenizer.model").write_bytes(bytes(range(256)) * 20)
    (folder / "sub").mkdir()
    torch.save({"state": {0: {"exp_avg": torch.randn(32, 16)}}, "epoch": 3}, folder / "sub/opt.pt")
    (folder / ".hidden").write_text("x")
    return folder


def write_sharded(folder, weights, num_shards) -> None:
    folder.mkdir(exist_ok=True)
    names = list(weights)
    table = {}
    for shard in range(num_shards):
        name = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors"
        part = {key: weights[key] for key in names[shard::num_shards]}
        save_file(part, folder / name, metadata={"format": "pt"})
        table |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 1}, "weight_map": table}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def copied(source, name="dst"):
    there = source.parent / name
    shutil.copytree(source, there)
    return there


def classes(verdict) -> list[str]:
    json.dumps(verdict.to_json(), allow_nan=False)
    return [finding.evidence["class"] for finding in verdict.findings]


def test_a_true_copy_may_be_relied_upon(source) -> None:
    verdict = diff(source, copied(source))
    assert verdict.ok
    copy = verdict.comparison["copy"]
    assert copy["complete"]
    assert copy["sentence"] == "every file of A is in B with equal bytes (7 files)"
    assert "identical" in verdict.comparison["headline"]
    assert verdict.stats["tensors"] == 7


def test_more_in_the_copy_does_no_harm(source) -> None:
    there = copied(source)
    (there / "notes.txt").write_text("mine")
    verdict = diff(source, there)
    assert verdict.exit_code() == 0
    assert classes(verdict) == ["file extra"]
    assert verdict.first is None
    assert verdict.comparison["copy"]["complete"]
    assert "B holds 1 file more" in verdict.comparison["headline"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tokenizer.model", "file missing"),
        ("sub/opt.pt", "file missing"),
        ("model-00002-of-00002.safetensors", "file missing"),
        (".hidden", "file missing"),
    ],
)
def test_every_missing_file_is_told(source, name, found) -> None:
    there = copied(source)
    (there / name).unlink()
    verdict = diff(source, there)
    assert classes(verdict) == [found]
    assert verdict.findings[0].where.path == name
    assert verdict.first.kind == "missing"
    assert verdict.exit_code() == 1
    assert verdict.comparison["copy"]["missing"] == [name]


def test_one_flipped_byte_of_any_file_is_told(source) -> None:
    for name in ("tokenizer.model", ".hidden", "sub/opt.pt", "model-00001-of-00002.safetensors"):
        there = copied(source)
        data = bytearray((there / name).read_bytes())
        data[len(data) * 2 // 3] ^= 1
        (there / name).write_bytes(data)
        verdict = diff(source, there)
        assert verdict.exit_code() in (1, 3), name
        assert not verdict.comparison["copy"]["complete"]
        assert verdict.comparison["copy"]["changed"] == [name]
        shutil.rmtree(there)


def test_a_changed_config_is_told_by_key_and_a_rewritten_one_is_none(source) -> None:
    there = copied(source)
    (there / "config.json").write_text(json.dumps({"hidden": 16, "layers": 4}, indent=1))
    verdict = diff(source, there)
    assert classes(verdict) == ["file bytes"]
    assert verdict.findings[0].evidence["changed"] == [{"key": "layers", "a": "3", "b": "4"}]
    (there / "config.json").write_text(json.dumps({"layers": 3, "hidden": 16}, indent=1))
    verdict = diff(source, there)
    assert verdict.findings == ()
    assert verdict.comparison["class"] == "container only"
    assert not verdict.comparison["copy"]["complete"]
    assert any("same JSON values" in item.why for item in verdict.coverage.skipped)


def test_a_model_saved_again_is_equal_and_still_no_copy(source, weights) -> None:
    there = copied(source)
    name = "model-00001-of-00002.safetensors"
    part = {key: weights[key] for key in list(weights)[0::2]}
    save_file(part, there / name, metadata={"saved": "again"})
    verdict = diff(source, there)
    assert verdict.exit_code() == 0
    assert verdict.comparison["class"] == "container only"
    assert not verdict.comparison["copy"]["complete"]


def test_a_truncated_shard_is_compared_as_far_as_it_goes(source) -> None:
    there = copied(source)
    shard = there / "model-00001-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1500])
    verdict = diff(source, there)
    assert classes(verdict) == ["damaged file"]
    assert verdict.findings[0].evidence["damaged_by"] == "FIL104"
    assert verdict.findings[0].evidence["side"] == "B"


def test_a_web_page_under_a_models_name_is_told(source) -> None:
    there = copied(source)
    (there / "model-00001-of-00002.safetensors").write_text("<!doctype html><html></html>")
    verdict = diff(source, there)
    assert "damaged file" in classes(verdict)
    assert any(f.evidence.get("damaged_by") == "FIL118" for f in verdict.findings)


def test_another_layout_of_the_same_model_is_equal(tmp_path, source, weights) -> None:
    other = tmp_path / "three"
    write_sharded(other, weights, 3)
    (source / "sub/opt.pt").unlink()
    verdict = diff(source, other)
    assert verdict.findings == ()
    assert verdict.comparison["meaning"] == "harmless"
    whole = tmp_path / "whole.safetensors"
    save_file(weights, whole)
    assert diff(source, whole).exit_code() == 0
    assert diff(whole, source).exit_code() == 0


def test_tensors_that_moved_to_another_shard_of_the_same_name(tmp_path, weights) -> None:
    write_sharded(tmp_path / "a", weights, 2)
    write_sharded(tmp_path / "b", dict(reversed(weights.items())), 2)
    verdict = diff(tmp_path / "a", tmp_path / "b")
    assert [c for c in classes(verdict) if c != "file bytes"] == []
    assert verdict.stats["tensors"] == len(weights)


def test_a_file_under_another_name_is_no_loss_and_is_told(source) -> None:
    there = copied(source)
    (there / "tokenizer.model").rename(there / "tok.model")
    verdict = diff(source, there)
    assert classes(verdict) == ["renamed"]
    assert verdict.exit_code() == 0
    assert verdict.comparison["copy"]["renamed"] == {"tokenizer.model": "tok.model"}


def test_a_link_back_to_the_source_is_no_copy(source) -> None:
    there = copied(source)
    (there / "tokenizer.model").unlink()
    (there / "tokenizer.model").symlink_to(source / "tokenizer.model")
    verdict = diff(source, there)
    assert classes(verdict) == ["file missing"]
    assert "links into A" in verdict.findings[0].message
    # A link inside the source itself is followed on both sides.
    linked = copied(source, "again")
    (source / "best.pt").symlink_to("sub/opt.pt")
    (linked / "best.pt").symlink_to("sub/opt.pt")
    assert diff(source, linked).ok


def test_what_cannot_be_followed_leaves_the_verdict_open(source) -> None:
    there = copied(source)
    (source / "gone").symlink_to("nowhere")
    verdict = diff(source, there)
    assert verdict.exit_code() == 3
    os.mkfifo(source / "pipe")
    assert diff(source, there).exit_code() == 3


def test_folders_without_models_are_compared_byte_by_byte(tmp_path) -> None:
    for side in "ab":
        (tmp_path / side).mkdir()
        (tmp_path / side / "sample.jpg").write_bytes(b"\xff\xd8" * 5000)
    assert diff(tmp_path / "a", tmp_path / "b").ok
    (tmp_path / "b" / "sample.jpg").write_bytes(b"\xff\xd8" * 4000)
    verdict = diff(tmp_path / "a", tmp_path / "b")
    assert classes(verdict) == ["file bytes"]
    assert verdict.findings[0].evidence["size_b"] == 8000
    (tmp_path / "c").mkdir()
    with pytest.raises(PathError, match="neither a run nor a model"):
        diff(tmp_path / "a", tmp_path / "c")


def test_a_training_checkpoint_one_step_on(tmp_path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(4):
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        folder = tmp_path / f"step-{step}"
        folder.mkdir()
        save_file(model.state_dict(), folder / "model.safetensors")
        torch.save(optimizer.state_dict(), folder / "optimizer.pt")
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    verdict = diff(tmp_path / "step-2", tmp_path / "step-3")
    assert sorted(classes(verdict)) == ["file bytes", "training step"]
    (finding,) = [f for f in verdict.findings if f.evidence["class"] == "training step"]
    assert finding.evidence["num_moved"] == 4
    assert finding.evidence["counters"][0]["before"] == 3.0
    assert verdict.comparison["equal"] == 0


def test_two_folders_of_distributed_checkpoints_and_one_file(tmp_path, weights) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save({"model": weights, "step": 7}, checkpoint_id=tmp_path / "a")
    dcp.save({"model": weights, "step": 7}, checkpoint_id=tmp_path / "b")
    verdict = diff(tmp_path / "a", tmp_path / "b")
    assert verdict.exit_code() == 0
    assert verdict.stats["tensors"] == len(weights)
    save_file(weights, tmp_path / "m.safetensors")
    verdict = diff(tmp_path / "a", tmp_path / "m.safetensors")
    assert verdict.first is None
    assert verdict.comparison["class"] == "prefix"
    data = bytearray(next((tmp_path / "b").glob("*.distcp")).read_bytes())
    raw = weights["h.1.q"].numpy().tobytes()
    data[bytes(data).index(raw) + 4 * 10 + 3] ^= 0x40
    next((tmp_path / "b").glob("*.distcp")).write_bytes(data)
    verdict = diff(tmp_path / "a", tmp_path / "b")
    found = [f for f in verdict.findings if f.evidence["class"] == "single element"]
    assert [f.where.elements for f in found] == [(10,)]
    assert len(verdict.findings) == 1


def test_optimizer_state_is_paired_by_parameter_name(tmp_path) -> None:
    torch.manual_seed(0)
    layers = {"a": torch.nn.Linear(8, 8), "b": torch.nn.Linear(8, 8)}
    for name, order in (("one", "ab"), ("other", "ba")):
        for layer in layers.values():
            layer.zero_grad()
        named = [(f"{k}.{n}", p) for k in order for n, p in layers[k].named_parameters()]
        optimizer = torch.optim.AdamW(named, lr=0.0)
        generator = torch.Generator().manual_seed(3)
        inputs = torch.randn(4, 8, generator=generator)
        layers["b"](layers["a"](inputs)).square().mean().backward()
        optimizer.step()
        torch.save({"optimizer": optimizer.state_dict()}, tmp_path / f"{name}.pt")
    verdict = diff(tmp_path / "one.pt", tmp_path / "other.pt")
    assert verdict.findings == ()
    assert any("by parameter name" in item.why for item in verdict.coverage.skipped)
    # Without names the numbers are all there is, and the exchange shows.
    for name in ("one", "other"):
        state = torch.load(tmp_path / f"{name}.pt")
        for group in state["optimizer"]["param_groups"]:
            del group["param_names"]
        torch.save(state, tmp_path / f"{name}.pt")
    verdict = diff(tmp_path / "one.pt", tmp_path / "other.pt")
    assert "swapped" in classes(verdict)
    assert "another parameter's state" in verdict.findings[0].message


@pytest.mark.parametrize("how", ["itself", "link"])
def test_a_folder_is_no_copy_of_itself(source, how) -> None:
    there = source
    if how == "link":
        there = source.parent / "link"
        there.symlink_to(source)
    verdict = diff(source, there)
    assert verdict.ok
    assert verdict.comparison["class"] == "identical"
    assert verdict.comparison["copy"]["complete"] is False
    assert "one and the same folder" in verdict.comparison["headline"]
    assert "with equal bytes" not in verdict.comparison["headline"]
