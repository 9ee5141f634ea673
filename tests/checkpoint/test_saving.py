"""`everybit.save` and `Vault`: proved when written, whole or not there, never less than before."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.checkpoint.models import Small, copies, same, seeded, trained

import everybit
from everybit.checkpoint import saving
from everybit.files.seals.manifest import TakenFrom, load_manifest


def _nest():
    model = seeded(Small)
    optimizer = trained(model)
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def _flipped(original, *, number=0, bit=4):
    """Return a `torch.save` that writes one bit of the largest record wrong, its CRC right."""

    def save(obj, file):
        def walk(value):
            if isinstance(value, torch.Tensor):
                found.append(value)
            elif isinstance(value, dict):
                for item in value.values():
                    walk(item)

        found: list[torch.Tensor] = []
        walk(obj)
        place = found[number].view(-1).view(torch.uint8)
        place[5] ^= bit
        original(obj, file)
        place[5] ^= bit

    return save


def test_a_saved_file_is_whole_sealed_and_loaded_by_torch(tmp_path):
    nest = _nest()
    saved = everybit.save(nest, tmp_path / "state.pt", step=3, counters={"epoch": 1})
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    assert everybit.digest(loaded) == everybit.digest(nest)
    assert everybit.verify(tmp_path).ok
    manifest = load_manifest(tmp_path)
    assert (manifest.step, manifest.counters["epoch"]) == (3, 1)
    entry = manifest.files["state.pt"]
    assert entry.taken_from is TakenFrom.PROVED
    assert saved.num_tensors == len(entry.tensors)
    assert (saved.size_bytes, saved.digest) == (entry.size_bytes, entry.tree)
    assert _names(tmp_path) == ["MANIFEST.everybit.json", "state.pt"]


def test_every_kind_of_tensor_is_proved(tmp_path):
    base = torch.randn(6, 8, dtype=torch.complex64)
    nest = {
        "view": base[::2, 1::3].t(),
        "conj": base.conj(),
        "bf16": torch.randn(5).bfloat16(),
        "fp8": torch.randn(5).to(torch.float8_e4m3fn),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "list": [torch.arange(3), (torch.arange(4), {5: torch.arange(6)})],
        "sparse": torch.eye(3).to_sparse(),
        "array": np.arange(5.0),
        "tied": base,
    }
    everybit.save(nest, tmp_path / "all.pt")
    assert everybit.verify(tmp_path).ok


def test_safetensors_by_name(tmp_path):
    state = {"a": torch.randn(3, 4).t(), "b": torch.randn(3).conj(), "c": torch.ones(2)}
    state["d"] = state["c"]
    everybit.save(state, tmp_path / "model.safetensors")
    assert everybit.verify(tmp_path).ok
    model = torch.nn.ParameterDict({k: torch.zeros_like(v) for k, v in state.items()})
    assert everybit.load_into(model, tmp_path / "model.safetensors").ok
    with pytest.raises(everybit.UsageError, match="tensors alone, not a int"):
        everybit.save({"a": 1}, tmp_path / "no.safetensors")
    assert _names(tmp_path) == ["MANIFEST.everybit.json", "model.safetensors"]


def test_damage_between_memory_and_file_is_told_at_the_save(tmp_path, monkeypatch):
    path = tmp_path / "state.pt"
    nest = _nest()
    everybit.save(nest, path)
    before = path.read_bytes()
    monkeypatch.setattr(torch, "save", _flipped(torch.save))
    with pytest.raises(everybit.EverybitError, match=r"body\.0\.weight differs .*FIL102") as told:
        everybit.save(nest, path)
    assert "1 elements, the first of them element 1 " in str(told.value)
    assert "bits 10" in str(told.value)
    assert path.read_bytes() == before
    assert everybit.verify(tmp_path).ok
    assert _names(tmp_path) == ["MANIFEST.everybit.json", "state.pt"]


def test_a_tensor_that_changes_meanwhile_is_told_apart(tmp_path, monkeypatch):
    nest, original = _nest(), torch.save

    def save(obj, file):
        obj["model"]["head.bias"] += 1
        original(obj, file)

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(everybit.EverybitError, match=r"head.bias changed in memory while"):
        everybit.save(nest, tmp_path / "state.pt")


def test_a_record_damaged_on_its_way_is_told(tmp_path, monkeypatch):
    original = torch.save

    def save(obj, file):
        buffer = io.BytesIO()
        original(obj, buffer)
        data = bytearray(buffer.getvalue())
        data[data.find(obj["model"]["head.weight"].numpy().tobytes()) + 3] ^= 1
        file.write(data)

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(everybit.EverybitError, match=r"written damaged: .*FIL108"):
        everybit.save(_nest(), tmp_path / "state.pt")
    assert _names(tmp_path) == []


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "state.pt"
    everybit.save(_nest(), path)
    before = path.read_bytes()

    def save(obj, file):
        file.write(b"x" * 1000)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(everybit.UsageError, match="no space left on device"):
        everybit.save(_nest(), path)
    assert path.read_bytes() == before
    assert everybit.verify(tmp_path).ok


def test_the_manifest_keeps_others_and_a_damaged_one_is_not_replaced(tmp_path):
    everybit.save({"a": torch.ones(3)}, tmp_path / "a.pt")
    everybit.save({"a": torch.ones(4)}, tmp_path / "b.pt")
    everybit.save({"a": torch.ones(5)}, tmp_path / "a.pt")
    assert sorted(load_manifest(tmp_path).files) == ["a.pt", "b.pt"]
    assert everybit.verify(tmp_path).ok
    manifest = tmp_path / "MANIFEST.everybit.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"float32", b"float33"))
    with pytest.raises(everybit.EverybitError, match="FIL110"):
        everybit.save({"a": torch.ones(6)}, tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt")["a"].shape == (5,)


def test_what_is_read_back_comes_from_the_disk(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(saving, "_forget", lambda handle: told.append(os.fstat(handle).st_size))
    saved = everybit.save(_nest(), tmp_path / "state.pt")
    assert told == [saved.size_bytes]


# -- Vault --------------------------------------------------------------------------


def _loop(vault, model, optimizer, scheduler, steps):
    for step in range(*steps):
        trained(model, optimizer, steps=1, seed=step)
        scheduler.step()
        vault.save(step=step + 1, model=model, optimizer=optimizer, scheduler=scheduler, note="x")


def _things(seed=0):
    model = seeded(Small, seed)
    optimizer = torch.optim.AdamW(model.named_parameters(), lr=0.01)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def test_a_restored_run_goes_on_as_if_uninterrupted(tmp_path):
    vault = everybit.Vault(tmp_path / "vault", keep=2)
    model, optimizer, scheduler = _things()
    _loop(vault, model, optimizer, scheduler, (0, 3))
    drawn = (torch.rand(2).tolist(), random.random(), np.random.rand())
    _loop(everybit.Vault(tmp_path / "rest"), model, optimizer, scheduler, (3, 6))
    other = _things(1)
    torch.manual_seed(99)
    restored = everybit.Vault(tmp_path / "vault").restore(
        model=other[0], optimizer=other[1], scheduler=other[2]
    )
    assert restored.step == 3
    assert restored.values["note"] == "x"
    assert restored.arrivals["model"].ok
    assert (torch.rand(2).tolist(), random.random(), np.random.rand()) == drawn
    _loop(everybit.Vault(tmp_path / "again"), *other, (3, 6))
    assert same(other[0], copies(model))
    assert everybit.digest(other[1]) == everybit.digest(optimizer)
    assert sorted(p.name for p in (tmp_path / "vault").iterdir()) == [
        "step-000000002", "step-000000003",
    ]  # fmt: skip
    assert everybit.verify(tmp_path / "vault").ok


def test_the_newest_whole_one_is_found_and_others_are_told(tmp_path):
    vault = everybit.Vault(tmp_path)
    assert vault.newest() is None
    with pytest.raises(everybit.UsageError, match="holds no whole checkpoint"):
        vault.restore()
    model, optimizer, scheduler = _things()
    _loop(vault, model, optimizer, scheduler, (0, 3))
    assert vault.newest().step == 3
    path = tmp_path / "step-000000003" / "state.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
    kept = vault.newest()
    assert kept.step == 2
    assert list(kept.passed_over) == ["step-000000003"]
    assert "FIL10" in kept.passed_over["step-000000003"]
    (tmp_path / "step-000000002" / "MANIFEST.everybit.json").unlink()
    assert vault.newest().step == 1
    with pytest.raises(everybit.EverybitError, match=r"step-000000003: .*FIL10"):
        vault.restore(step=3)
    with pytest.raises(everybit.UsageError, match="no checkpoint of step 9; it has 1, 2, 3"):
        vault.restore(step=9)


def test_a_step_saved_again_replaces_itself(tmp_path):
    vault = everybit.Vault(tmp_path, keep=2)
    vault.save(step=1, x=torch.zeros(2))
    vault.save(step=1, x=torch.ones(2))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.1"]
    assert vault.restore(step=1).values["x"].tolist() == [1, 1]


def test_what_does_not_fit_is_refused_before_anything_is_touched(tmp_path):
    vault = everybit.Vault(tmp_path)
    vault.save(step=1, model=seeded(Small))
    other = seeded(Small, 1, classes=7)
    before = copies(other)
    with pytest.raises(everybit.FindingsError, match=r"head\.weight"):
        vault.restore(model=other)
    with pytest.raises(everybit.UsageError, match="no 'optimizer' was saved in it; it has model"):
        vault.restore(optimizer=torch.optim.SGD(other.parameters(), 0.1))
    assert same(other, before)
    for wrong in ({}, {"rng": 1}):
        with pytest.raises(everybit.UsageError, match=r"nothing to save|name of the vault's own"):
            vault.save(step=2, **wrong)
    with pytest.raises(everybit.UsageError, match="keep at least one"):
        everybit.Vault(tmp_path, keep=0)


def test_what_a_killed_save_left_is_no_finding_and_goes(tmp_path):
    vault = everybit.Vault(tmp_path)
    vault.save(step=1, x=torch.zeros(2))
    remains = tmp_path / ".step-000000002.0123abcd.part"
    remains.mkdir()
    (remains / "state.pt").write_bytes(b"PK\x03\x04 cut short")
    assert everybit.verify(tmp_path).ok
    assert vault.newest().step == 1
    vault.save(step=3, x=torch.zeros(2))
    assert _names(tmp_path) == ["step-000000001", "step-000000003"]


def test_a_failed_save_keeps_the_earlier_ones(tmp_path, monkeypatch):
    vault = everybit.Vault(tmp_path, keep=1)
    model, optimizer, scheduler = _things()
    _loop(vault, model, optimizer, scheduler, (0, 1))
    monkeypatch.setattr(torch, "save", _flipped(torch.save))
    with pytest.raises(everybit.EverybitError, match="FIL102"):
        _loop(vault, model, optimizer, scheduler, (1, 2))
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]
    assert vault.newest().step == 1


_KILLS = """
import os, random, signal, sys, time, torch, everybit
torch.set_num_threads(1)
folder, chance = sys.argv[1], random.Random(0)
first = 1
for round in range(5):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        vault = everybit.Vault(folder, keep=2)
        state = {f"w{i}": torch.full((200_000,), 1.0) for i in range(4)}
        for step in range(first, 10_000):
            for value in state.values():
                value.fill_(step)
            vault.save(step=step, rng=False, state=state)
            os.write(writing, b"%d " % step)
        os._exit(1)
    os.close(writing)
    told = os.read(reading, 100)
    time.sleep(chance.uniform(0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reading, 1000):
        told += more
    done = int(told.split()[-1])
    kept = everybit.Vault(folder).newest()
    state = everybit.Vault(folder).restore().values["state"]
    whole = all(bool((value == kept.step).all()) for value in state.values())
    everywhere = all(everybit.verify(path).ok for path in kept.path.parent.glob("step-*"))
    print(kept.step >= done, whole, everywhere, len(kept.passed_over), flush=True)
    first = kept.step + 1
"""


def test_a_process_killed_at_any_moment_loses_no_checkpoint(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _KILLS, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["True True True 0"] * 5
