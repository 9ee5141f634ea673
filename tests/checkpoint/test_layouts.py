"""`load_into` from everything that libraries write: sharded, DCP, legacy, Lightning, Trainer."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from safetensors.torch import save_file
from tests.checkpoint.models import Small, Tied, copies, same, seeded, trained

import everybit


def _split(state, folder, write, name):
    shards = [dict(list(state.items())[:5]), dict(list(state.items())[5:])]
    index = {}
    for number, shard in enumerate(shards):
        file = name.format(number + 1)
        write(shard, folder / file)
        index |= dict.fromkeys(shard, file)
    return {"metadata": {}, "weight_map": index}


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_sharded_folders(tmp_path, kind):
    source, model = seeded(Small), seeded(Small, 1)
    state = {name: value.clone() for name, value in source.state_dict().items()}
    if kind == "safetensors":
        index = _split(state, tmp_path, save_file, "model-{:05d}-of-00002.safetensors")
        place = tmp_path / "model.safetensors.index.json"
    else:
        index = _split(state, tmp_path, torch.save, "pytorch_model-{:05d}-of-00002.bin")
        place = tmp_path / "pytorch_model.bin.index.json"
    place.write_text(json.dumps(index))
    assert everybit.load_into(model, tmp_path).ok
    assert same(model, copies(source))
    other = seeded(Small, 2)
    everybit.load_into(other, place)
    assert same(other, copies(source))
    (tmp_path / index["weight_map"]["head.weight"]).unlink()
    before = copies(model)
    with pytest.raises(everybit.EverybitError, match="FIL103"):
        everybit.load_into(model, tmp_path)
    assert same(model, before)


def test_dcp_folders(tmp_path):
    import torch.distributed.checkpoint as dcp

    source, model = seeded(Small), seeded(Small, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"model": source.state_dict()}, checkpoint_id=tmp_path / "dcp")
    arrival = everybit.load_into(model, tmp_path / "dcp")
    assert not arrival.verdict.findings
    assert same(model, copies(source))


def test_the_format_before_1_6(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    path = tmp_path / "old.pt"
    torch.save(source.state_dict(), path, _use_new_zipfile_serialization=False)
    everybit.load_into(model, path)
    assert same(model, copies(source))


def test_lightning_checkpoints(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    optimizer = trained(source, torch.optim.AdamW(source.parameters()))
    path = tmp_path / "epoch=1.ckpt"
    torch.save(
        {
            "epoch": 1,
            "global_step": 2,
            "pytorch-lightning_version": "2.4.0",
            "state_dict": {f"net.{k}": v for k, v in source.state_dict().items()},
            "loops": {"fit_loop": {"state_dict": {}}},
            "callbacks": {},
            "optimizer_states": [optimizer.state_dict()],
            "lr_schedulers": [],
        },
        path,
    )
    with pytest.raises(everybit.FindingsError, match=r"remove the prefix `net\.`"):
        everybit.load_into(model, path)
    second = torch.optim.AdamW(model.parameters())
    arrival = everybit.load_into(model, path, prefix="net", optimizer=second)
    assert arrival.ok
    assert arrival.values["global_step"] == 2
    assert same(model, copies(source))
    assert everybit.digest(second) == everybit.digest(optimizer)


def test_a_trainer_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=40, n_positions=8)
    source = transformers.GPT2LMHeadModel(config)
    source.save_pretrained(tmp_path)
    optimizer = torch.optim.AdamW(source.parameters())
    source(input_ids=torch.arange(6)[None]).logits.square().mean().backward()
    optimizer.step()
    source.save_pretrained(tmp_path)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    model = transformers.GPT2LMHeadModel(config)
    second = torch.optim.AdamW(model.parameters())
    arrival = everybit.load_into(model, tmp_path, optimizer=second)
    assert everybit.digest(model) == everybit.digest(source)
    assert arrival.tied == {"lm_head.weight": "transformer.wte.weight"}
    assert everybit.digest(second) == everybit.digest(optimizer)
    # safetensors sorts its keys and the file has no names: shapes and positions alone.
    assert arrival.verdict.status is everybit.Status.INCONCLUSIVE
    (said,) = [item for item in arrival.verdict.coverage.skipped if item.promised]
    assert "only shapes and positions" in said.why


def test_a_whole_model_pickled_is_read_without_running_it(tmp_path):
    source, model = seeded(Tied), seeded(Tied, 1)
    path = tmp_path / "model.pt"
    torch.save(source, path)
    assert everybit.load_into(model, path).ok
    assert same(model, copies(source))
