"""Every benign shape comes back from `convert` and `restore` bit for bit, aliases and all."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tests.files import makers
from tests.files.converting import shapes
from tests.files.converting.sameness import assert_same
from tests.files.formats.dcp_maker import save_dcp, save_dcp_of_two_ranks, whole_tensors
from tests.files.formats.tar_maker import save_tar
from tests.files.test_torch_reading import big_endian_copy

import everybit

pytestmark = pytest.mark.filterwarnings("ignore")


def there_and_back(path, out):
    """Convert, restore; return the object and the verdict."""
    verdict = everybit.convert(path, out)
    assert verdict.exit_code() == 0, verdict.findings
    return everybit.restore(out), verdict


@pytest.mark.parametrize("name", shapes.SAME)
def test_every_shape(name, tmp_path):
    value = shapes.SAME[name]()
    path = makers.save(value, tmp_path / "m.pt")
    found, verdict = there_and_back(path, tmp_path / "m.safetensors")
    assert_same(value, found)
    assert not verdict.stats["records"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "m.pt", "m.safetensors", "m.state.json",
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", [1, 3, 4, 5])
@pytest.mark.parametrize("name", ["training", "plain_values", "library_values", "numpy_values"])
def test_other_protocols(name, protocol, tmp_path):
    value = shapes.SAME[name]()
    path = makers.save(value, tmp_path / "m.pt", pickle_protocol=protocol)
    assert_same(value, there_and_back(path, tmp_path / "m.safetensors")[0])


@pytest.mark.parametrize(
    "name", ["training", "parameters", "plain_values", "shared_values", "numpy_values", "views"]
)
def test_the_format_before_1_6(name, tmp_path):
    value = shapes.SAME[name]()
    path = makers.save(value, tmp_path / "m.pt", _use_new_zipfile_serialization=False)
    assert_same(value, there_and_back(path, tmp_path / "m.safetensors")[0])


def test_the_tar_format_of_torch_0_1(tmp_path):
    shared = torch.arange(12.0).reshape(3, 4)
    value = {"a": torch.randn(2, 3), "s": shared, "t": shared.t(), "n": 3, "again": shared}
    path = save_tar(value, tmp_path / "m.tar")
    assert_same(value, there_and_back(path, tmp_path / "m.safetensors")[0])


def test_storages_of_the_tar_format_that_are_part_of_another(tmp_path):
    root, part = torch.arange(10.0), torch.ones(1)
    keys = [t.untyped_storage().data_ptr() for t in (root, part)]
    value = {"root": root, "part": part}
    path = save_tar(value, tmp_path / "m.tar", views=[(keys[1], keys[0], 4, 3)])
    found, _ = there_and_back(path, tmp_path / "m.safetensors")
    assert found["part"].item() == 4.0
    found["part"].fill_(9)
    assert found["root"][4].item() == 9.0


def test_big_endian_files(tmp_path):
    base = torch.randn(6, 4)
    value = {"w": base, "t": base.t(), "every": torch.randn(8)[::2]}
    path = big_endian_copy(makers.save(value, tmp_path / "l.pt"), tmp_path / "b.pt")
    assert_same(value, there_and_back(path, tmp_path / "m.safetensors")[0])


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_bare_pickles_with_tensors(protocol, tmp_path):
    value = {"w": torch.randn(3, 4), "p": torch.nn.Parameter(torch.ones(2)), "n": 1}
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(value, protocol))
    assert_same(value, there_and_back(tmp_path / "m.pkl", tmp_path / "m.safetensors")[0])


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_bare_pickles_without(protocol, tmp_path):
    for name in ("plain_values", "library_values", "shared_values", "numpy_values"):
        value = shapes.SAME[name]()
        (tmp_path / "m.pkl").write_bytes(pickle.dumps(value, protocol))
        out = tmp_path / f"{name}.safetensors"
        assert_same(value, there_and_back(tmp_path / "m.pkl", out)[0])


def test_foreign_objects_become_records_and_are_named(tmp_path):
    value = shapes.foreign_objects()
    path = makers.save(value, tmp_path / "m.pt")
    found, verdict = there_and_back(path, tmp_path / "m.safetensors")
    names = {record["name"] for record in verdict.stats["records"]}
    here = "tests.files.converting.shapes"
    assert {f"{here}:Colour", f"{here}:Settings", f"{here}:Tagged", f"{here}:Bag"} <= names
    assert {f.rule for f in verdict.findings} == {"PKL202"}
    assert found["enum"].name == f"{here}.Colour"
    assert found["enum"].args == (1,)
    assert found["settings"].state == {"lr": 0.1, "layers": (1, 2)}
    assert (found["class"].name, found["class"].args) == (f"{here}.Settings", None)
    assert torch.equal(found["tagged"].args[0], value["tagged"].as_subclass(torch.Tensor))
    assert found["tagged"].state == {"note": 1}
    assert found["bag"].items == [1, 2]
    assert found["table"].pairs == {"a": 1}
    weight = found["module"].state["_parameters"]["weight"]
    assert torch.equal(weight, value["module"].weight)
    assert type(weight) is torch.nn.Parameter
    state = json.loads((tmp_path / "m.state.json").read_text())
    assert {record["name"] for record in state["records"]} == names


def test_a_tensor_subclass_keeps_its_bits(tmp_path):
    value = {"x": torch.randn(3).as_subclass(shapes.Tagged)}
    found, _ = there_and_back(makers.save(value, tmp_path / "m.pt"), tmp_path / "m.safetensors")
    assert found["x"].name.endswith("Tagged")


def test_the_file_is_what_safetensors_reads(tmp_path):
    model = torch.nn.LSTM(3, 4)
    model.register_buffer("last", torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))
    model.register_buffer("conj", torch.randn(4).cfloat().conj())
    makers.save(model.state_dict(), tmp_path / "m.pt")
    everybit.convert(tmp_path / "m.pt", tmp_path / "m.safetensors")
    found = load_file(tmp_path / "m.safetensors")
    assert found.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(found[name], tensor), name
    with safe_open(tmp_path / "m.safetensors", "pt") as file:
        assert file.metadata()["format"] == "pt"


def test_storages_are_written_once(tmp_path):
    weight = torch.randn(1000, 100)
    value = {"embed": weight, "head": weight, "t": weight.t(), "half": weight[:500]}
    makers.save(value, tmp_path / "m.pt")
    everybit.convert(tmp_path / "m.pt", tmp_path / "m.safetensors")
    assert (tmp_path / "m.safetensors").stat().st_size < 400_000 + 2000
    assert list(load_file(tmp_path / "m.safetensors")) == ["embed"]


def test_names_are_those_that_the_other_verbs_use(tmp_path):
    value = {"model": torch.nn.Linear(2, 3).state_dict(), "list": [torch.ones(1)], 3: torch.ones(2)}
    makers.save(value, tmp_path / "m.pt")
    everybit.convert(tmp_path / "m.pt", tmp_path / "m.safetensors")
    told = everybit.diff(tmp_path / "m.pt", tmp_path / "m.safetensors")
    assert not told.findings, told.findings
    assert set(load_file(tmp_path / "m.safetensors")) == {
        "model.weight", "model.bias", "list.0", "3",
    }  # fmt: skip


# -- folders -------------------------------------------------------------------------------------


def test_a_dcp_folder(tmp_path):
    value = {
        "model": torch.nn.Linear(3, 4).state_dict(), "step": 12, "args": shapes.Settings(),
        "list": [torch.ones(2), "x", {"deep": torch.zeros(3)}], "nan": float("nan"),
        "values": {"lr": 0.1, "betas": (0.9, 0.99)}, "empty": torch.empty(0, 2),
    }  # fmt: skip
    save_dcp(value, tmp_path / "dcp")
    out = tmp_path / "out"
    found, verdict = there_and_back(tmp_path / "dcp", out)
    assert found.keys() == value.keys()
    assert torch.equal(found["model"]["weight"], value["model"]["weight"])
    assert found["list"][1] == "x"
    assert torch.equal(found["list"][2]["deep"], torch.zeros(3))
    assert (found["step"], found["values"]["betas"]) == (12, (0.9, 0.99))
    assert found["args"].state == vars(value["args"])
    assert [r["name"] for r in verdict.stats["records"]] == [
        "tests.files.converting.shapes:Settings"
    ]
    assert sorted(p.name for p in out.iterdir()) == ["model.safetensors", "model.state.json"]


def test_a_dcp_folder_of_two_ranks_is_put_together(tmp_path):
    save_dcp_of_two_ranks(tmp_path / "dcp")
    found, _ = there_and_back(tmp_path / "dcp", tmp_path / "m.safetensors")
    for name, tensor in whole_tensors().items():
        assert torch.equal(found[name], tensor), name
    assert found["step"] == 12


@pytest.mark.parametrize("new", [True, False])
def test_a_folder_of_shards(tmp_path, new):
    weights = {f"layer.{n}.weight": torch.randn(4, 4) for n in range(6)}
    folder = tmp_path / "model"
    folder.mkdir()
    shards = {}
    for n in range(3):
        name = f"pytorch_model-{n + 1:05d}-of-00003.bin"
        part = dict(list(weights.items())[2 * n : 2 * n + 2])
        makers.save(part, folder / name, _use_new_zipfile_serialization=new)
        shards |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 1}, "weight_map": shards}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")
    found, verdict = there_and_back(folder, tmp_path / "out")
    assert_same(weights, found)
    assert "config.json" in verdict.coverage.skipped[0].what
    by_index, _ = there_and_back(
        folder / "pytorch_model.bin.index.json", tmp_path / "by.safetensors"
    )
    assert_same(weights, by_index)


def test_output_in_shards(tmp_path):
    value = {f"w{n}": torch.randn(100) for n in range(10)} | {"big": torch.randn(2000), "n": 1}
    makers.save(value, tmp_path / "m.pt")
    everybit.convert(tmp_path / "m.pt", tmp_path / "out", max_shard_size="1KB")
    index = json.loads((tmp_path / "out" / "m.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    assert len(files) == 6
    assert files[0] == "m-00001-of-00006.safetensors"
    assert index["metadata"]["total_size"] == 12_000
    for name, file in index["weight_map"].items():
        assert torch.equal(load_file(tmp_path / "out" / file)[name], value[name])
    assert_same(value, everybit.restore(tmp_path / "out"))
    assert not everybit.verify(tmp_path / "out", level="structure").findings


def test_a_trainer_folder(tmp_path):
    value = shapes.training()
    folder = tmp_path / "checkpoint-3"
    folder.mkdir()
    makers.save(value["model"], folder / "pytorch_model.bin")
    makers.save(value["optimizers"][0], folder / "optimizer.pt")
    makers.save(value["scheduler"], folder / "scheduler.pt")
    makers.save({"cpu": torch.get_rng_state()}, folder / "rng_state.pth")
    (folder / "trainer_state.json").write_text("{}")
    found, _ = there_and_back(folder, tmp_path / "out")
    assert found.keys() == {"model", "optimizer", "scheduler", "rng_state"}
    assert_same(value["model"], found["model"])
    assert_same(value["optimizers"][0], found["optimizer"])


def test_transformers_arguments(tmp_path):
    """What Trainer saves beside a model: enums, dataclasses, paths, devices."""
    code = f"""
import torch, transformers
args = transformers.TrainingArguments(output_dir={str(tmp_path / "run")!r}, report_to=[])
torch.save(args, {str(tmp_path / "training_args.bin")!r})
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True)
    found, verdict = there_and_back(tmp_path / "training_args.bin", tmp_path / "a.safetensors")
    assert found.name == "transformers.training_args.TrainingArguments"
    assert found.state["learning_rate"] == 5e-05
    assert verdict.stats["records"]


def test_a_lightning_checkpoint(tmp_path):
    code = f"""
import torch, lightning
class Model(lightning.LightningModule):
    def __init__(self, width=4):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 2)
    def training_step(self, batch, _):
        return self.layer(batch[0]).sum()
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters())
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4)), 2)
trainer = lightning.Trainer(max_epochs=2, logger=False, enable_progress_bar=False,
                            enable_model_summary=False, accelerator="cpu",
                            default_root_dir={str(tmp_path)!r})
trainer.fit(Model(), data)
trainer.save_checkpoint({str(tmp_path / "l.ckpt")!r})
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True)
    found, _ = there_and_back(tmp_path / "l.ckpt", tmp_path / "l.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = torch.load(tmp_path / "l.ckpt", weights_only=False)
    assert_same(wanted["state_dict"], found["state_dict"])
    assert_same(wanted["optimizer_states"], found["optimizer_states"])
    assert_same(wanted["lr_schedulers"], found["lr_schedulers"])
    assert (found["epoch"], found["global_step"]) == (wanted["epoch"], wanted["global_step"])
