"""The model at a path: files, shards, folders, and what stands beside the tensors."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file
from tests.files import makers

from everybit.core.errors import DamagedError, PathError
from everybit.files import read_tensors
from everybit.files.boxes import tiling_problem
from everybit.files.model import Layout, model_tensor_chunks, read_model, read_model_tensor

WEIGHTS = {
    "a": torch.arange(24.0).reshape(6, 4),
    "b": torch.ones(5, dtype=torch.bfloat16),
    "c": torch.arange(3),
}


def shard(folder, weights=WEIGHTS, suffix=".safetensors"):
    stem = "model" if suffix == ".safetensors" else "pytorch_model"
    names = [f"{stem}-0000{i}-of-00002{suffix}" for i in (1, 2)]
    halves = [{"a": weights["a"]}, {key: weights[key] for key in ("b", "c")}]
    for name, half in zip(names, halves, strict=True):
        if suffix == ".safetensors":
            save_file(half, folder / name)
        else:
            torch.save(half, folder / name)
    listed = {key: name for name, half in zip(names, halves, strict=True) for key in half}
    (folder / f"{stem}{suffix}.index.json").write_text(json.dumps({"weight_map": listed}))
    return names


def equal(model, weights=WEIGHTS):
    assert {t.name for t in model.tensors} >= weights.keys()
    for name, tensor in weights.items():
        assert read_model_tensor(model, model.by_name()[name]) == makers.canonical(tensor)


def test_one_file(tmp_path):
    path = tmp_path / "m.pt"
    torch.save({**WEIGHTS, "step": 4, "note": "x"}, path)
    model = read_model(path, digests=True)
    equal(model)
    assert model.layout is Layout.FILE
    assert model.files == ("",)
    assert dict(model.values) == {"step": 4, "note": "x"}
    trees = {t.name: t.tree for t in read_tensors(path).tensors}
    assert {t.name: t.tree for t in model.tensors} == trees
    assert (
        b"".join(map(bytes, model_tensor_chunks(model, model.by_name()["a"], 5, 50)))
        == (makers.canonical(WEIGHTS["a"])[5:50])
    )


@pytest.mark.parametrize("suffix", [".safetensors", ".bin"])
def test_shards_by_their_index(tmp_path, suffix):
    names = shard(tmp_path, suffix=suffix)
    for path in (tmp_path, next(tmp_path.glob("*.index.json"))):
        model = read_model(path, digests=True)
        equal(model)
        assert model.layout is Layout.SHARDED
        assert model.files == tuple(names)
        assert model.by_name()["b"].parts[0].path == names[1]


def test_a_trainer_folder(tmp_path):
    save_file(WEIGHTS, tmp_path / "model.safetensors")
    weights = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(weights.parameters(), lr=0.25)
    weights(torch.ones(3)).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    torch.save({"args": 1}, tmp_path / "training_args.bin")
    (tmp_path / "config.json").write_text("{}")
    model = read_model(tmp_path)
    equal(model)
    assert model.layout is Layout.FOLDER
    assert model.by_name()["optimizer.state.0.exp_avg"].shape == (2, 3)
    assert model.values["optimizer.param_groups.0.lr"] == 0.25


def test_missing_and_repeated_shards(tmp_path):
    names = shard(tmp_path)
    save_file(WEIGHTS, tmp_path / names[1])
    with pytest.raises(DamagedError, match="is in") as caught:
        read_model(tmp_path)
    assert caught.value.rule == "FIL114"
    (tmp_path / names[1]).unlink()
    with pytest.raises(DamagedError) as caught:
        read_model(tmp_path)
    assert caught.value.rule == "FIL103"


def test_folders_with_no_model_or_several(tmp_path):
    with pytest.raises(PathError, match="no model file"):
        read_model(tmp_path)
    (tmp_path / "checkpoint-1").mkdir()
    with pytest.raises(PathError, match="checkpoint-1"):
        read_model(tmp_path)
    with pytest.raises(PathError):
        read_model(tmp_path / "gone")


def test_unreadable_tensors_are_refused(tmp_path):
    import numpy as np

    np.savez_compressed(tmp_path / "a.npz", x=np.arange(100.0))
    model = read_model(tmp_path / "a.npz", digests=True)
    (tensor,) = model.tensors
    assert tensor.tree is None
    with pytest.raises(PathError, match="compressed"):
        read_model_tensor(model, tensor)


@pytest.mark.parametrize(
    ("shape", "boxes", "said"),
    [
        ((), [((), ())], ""),
        ((), [((), ()), ((), ())], "overlap"),
        ((4,), [((0,), (2,)), ((2,), (2,))], ""),
        ((4,), [((0,), (2,)), ((1,), (2,))], "overlap"),
        ((4,), [((0,), (2,))], "missing"),
        ((4,), [((3,), (2,))], "outside"),
        ((4, 2), [((0,), (4,))], "dimensions"),
        ((0, 3), [((0, 0), (0, 3))], ""),
        ((4, 4), [((0, 0), (4, 2)), ((0, 2), (2, 2)), ((2, 2), (2, 2))], ""),
        ((4, 4), [((0, 0), (4, 2)), ((0, 1), (2, 2)), ((2, 2), (2, 2))], "overlap"),
        ((4, 4), [((0, 0), (4, 3)), ((0, 1), (2, 3)), ((2, 2), (2, 2))], "overlap"),
    ],
)
def test_chunks_fill_their_tensor(shape, boxes, said):
    problem = tiling_problem(shape, boxes)
    assert (said in problem) if said else not problem
