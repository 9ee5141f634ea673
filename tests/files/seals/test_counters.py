from __future__ import annotations

import json

import pytest
import torch
from tests.files import makers

import everybit
from everybit.files.seals.counters import agreed_step
from everybit.files.seals.manifest import Covers, load_manifest, save_id_of


def training(steps=3, names=True):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    parameters = model.named_parameters() if names else model.parameters()
    optimizer = torch.optim.AdamW(parameters)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(steps):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        scheduler.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "step": steps,
        "epoch": 1,
        "args": {"steps": 999},
        "best": 0.25,
    }


def test_a_checkpoint_tells_its_step_counters_and_parameters(tmp_path):
    makers.save(training(), tmp_path / "c.pt")
    everybit.seal(tmp_path)
    manifest = load_manifest(tmp_path)
    assert manifest.step == 3
    assert manifest.counters == {
        "c.pt:step": 3,
        "c.pt:epoch": 1,
        "c.pt:scheduler._step_count": 4,
        "c.pt:scheduler.last_epoch": 3,
        "c.pt:optimizer.state.*.step": 3,
    }
    order = manifest.files["c.pt"].parameter_order
    assert order == ("0.weight", "0.bias", "1.weight", "1.bias")


def test_without_names_in_the_optimizer_the_state_dicts_order_is_kept(tmp_path):
    value = {f"layer{number}.weight": torch.full((3,), float(number)) for number in range(12)}
    value["tied"] = value["layer0.weight"]
    makers.save(value, tmp_path / "m.pt")
    everybit.seal(tmp_path)
    assert load_manifest(tmp_path).files["m.pt"].parameter_order == tuple(value)


def test_optimizer_steps_that_disagree_are_listed_one_by_one(tmp_path):
    value = training()
    value["optimizer"]["state"][2]["step"] += 1
    makers.save(value, tmp_path / "c.pt")
    everybit.seal(tmp_path)
    counters = load_manifest(tmp_path).counters
    assert counters["c.pt:optimizer.state.1.step"] == 3
    assert counters["c.pt:optimizer.state.2.step"] == 4


def test_a_trainers_folder(tmp_path):
    (tmp_path / "trainer_state.json").write_text(
        json.dumps({"global_step": 40, "epoch": 1.5, "log_history": [{"step": 10}], "best": None})
    )
    makers.save(training()["scheduler"], tmp_path / "scheduler.pt")
    (tmp_path / "broken.json").write_text("{" * 100_000)
    everybit.seal(tmp_path)
    manifest = load_manifest(tmp_path)
    assert manifest.step == 40
    assert manifest.counters["trainer_state.json:epoch"] == 1.5
    assert manifest.counters["scheduler.pt:last_epoch"] == 3
    assert not any("log_history" in name for name in manifest.counters)
    makers.save({"step": 41}, tmp_path / "other.pt")
    everybit.seal(tmp_path)
    assert load_manifest(tmp_path).step is None  # two files, two steps


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1 << 70, True, "7", None])
def test_counters_that_are_no_numbers_are_left_out(tmp_path, value):
    makers.save({"step": value, "epoch": 2}, tmp_path / "c.pt")
    everybit.seal(tmp_path)
    manifest = load_manifest(tmp_path)
    assert (manifest.step, dict(manifest.counters)) == (None, {"c.pt:epoch": 2})


def test_agreement():
    assert agreed_step({"a": {"step": 3}, "b": {"global_step": 3.0}, "c": {"epoch": 9}}) == 3
    assert agreed_step({"a": {"step": 3}, "b": {"step": 4}}) is None
    assert agreed_step({"a": {"optimizer.step": 3}}) is None
    assert agreed_step({"a": {"step": -1}}) is None


def test_one_file_covers_files_and_a_folder_the_folder(tmp_path):
    first = makers.save({"w": torch.ones(3), "step": 7}, tmp_path / "a.pt")
    everybit.seal(first)
    manifest = load_manifest(tmp_path)
    assert (manifest.covers, manifest.step) == (Covers.FILES, 7)
    second = makers.save({"w": torch.ones(4)}, tmp_path / "b.pt")
    assert not [f for f in everybit.verify(tmp_path).findings if f.rule == "FIL109"]
    everybit.seal(tmp_path)
    manifest = load_manifest(tmp_path)
    assert manifest.covers is Covers.FOLDER
    assert manifest.save_id == save_id_of(manifest.files)
    third = makers.save({"w": torch.ones(5), "step": 8}, tmp_path / "c.pt")
    assert [f.rule for f in everybit.verify(tmp_path).findings] == ["FIL109"]
    everybit.seal(third)
    added = load_manifest(tmp_path)
    assert added.covers is Covers.FOLDER
    assert (added.save_id, added.step) == (manifest.save_id, 7)  # the same save, one file more
    assert added.counters == {"a.pt:step": 7, "c.pt:step": 8}
    assert everybit.verify(tmp_path).ok
    makers.save({"w": torch.zeros(4)}, second)
    everybit.seal(second)
    assert load_manifest(tmp_path).save_id != manifest.save_id


def test_equal_content_has_an_equal_save_id(tmp_path):
    ids = []
    for name in ("x", "y"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "f.bin").write_bytes(b"same")
        everybit.seal(folder)
        ids.append(load_manifest(folder).save_id)
    assert ids[0] == ids[1]
