"""Loads and saves as people meet them: what looked right and had not arrived, and the reverse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import everybit
from everybit.core.errors import PathError


class Deep(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])


class Extra(nn.Module):
    def __init__(self, value: object = 1) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.value = value

    def get_extra_state(self) -> object:
        return self.value

    def set_extra_state(self, state: object) -> None:
        self.value = state


def saved(tmp_path, obj):
    torch.save(obj, tmp_path / "m.pt")
    return tmp_path / "m.pt"


def test_layers_that_the_file_lacks_are_told_without_strict(tmp_path) -> None:
    path = saved(tmp_path, Deep(3).state_dict())
    arrival = everybit.load_into(Deep(4), path, strict=False)
    assert not arrival.ok
    assert arrival.missing == ("layers.3.weight", "layers.3.bias")
    # A whole file given to a part of its model is on purpose.
    assert everybit.load_into(Deep(2), path, strict=False).ok


def test_a_model_that_takes_nothing_is_an_error(tmp_path) -> None:
    path = saved(tmp_path, Deep(1).state_dict())
    with pytest.raises(everybit.FindingsError, match="none of the 2 tensors"):
        everybit.load_into(nn.ReLU(), path, strict=False)


@pytest.mark.parametrize("state", [{"scale": 3.0}, torch.tensor([1.0, 2.0])])
def test_extra_state_is_not_said_to_have_arrived(tmp_path, state) -> None:
    path = saved(tmp_path, Extra(state).state_dict())
    arrival = everybit.load_into(Extra(torch.zeros(2)), path)
    assert set(arrival.loaded) == {"inner.weight", "inner.bias"}
    assert arrival.verdict.status == "inconclusive"
    assert [s.what for s in arrival.verdict.coverage.skipped if s.promised] == ["_extra_state"]


def test_a_tensor_without_memory_of_its_own_is_refused_before_anything_is_loaded(tmp_path) -> None:
    model = nn.Linear(3, 3)
    model.weight = nn.Parameter(torch.zeros(1, 3).expand(3, 3))
    before = model.bias.clone()
    path = saved(tmp_path, nn.Linear(3, 3).state_dict())
    with pytest.raises(everybit.UsageError, match="it was expanded"):
        everybit.load_into(model, path)
    assert torch.equal(model.bias, before)


def test_a_model_saved_itself_is_read(tmp_path) -> None:
    source = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), Deep(2))
    source.register_buffer("cache", torch.ones(3), persistent=False)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), Deep(2))
    assert everybit.load_into(model, saved(tmp_path, source)).ok
    assert everybit.digest(model) == everybit.digest(source)


def test_a_model_that_renames_in_its_own_code_is_told_so(tmp_path) -> None:
    with pytest.warns(FutureWarning):
        old = nn.utils.weight_norm(nn.Linear(4, 4))
    model = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    with pytest.raises(everybit.FindingsError, match=r"`model\.load_state_dict` runs it"):
        everybit.load_into(model, saved(tmp_path, old.state_dict()))


def trained(make) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = make(model.parameters())

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).square().mean()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return model, optimizer


def test_state_of_another_kind_of_optimizer_is_refused(tmp_path) -> None:
    model, optimizer = trained(torch.optim.AdamW)
    path = saved(tmp_path, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    other = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(everybit.FindingsError, match="another kind of optimizer, with amsgrad"):
        everybit.load_into(model, path, optimizer=other)
    assert not other.state
    # Adam and AdamW keep the same state.
    like = torch.optim.Adam(model.parameters())
    assert everybit.load_into(model, path, optimizer=like).ok


def test_lists_of_tensors_and_plain_values_come_back_in_order(tmp_path) -> None:
    model, optimizer = trained(torch.optim.LBFGS)
    path = saved(tmp_path, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    other = torch.optim.LBFGS(model.parameters())
    assert everybit.load_into(model, path, optimizer=other).ok
    assert everybit.digest(other) == everybit.digest(optimizer)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folder", [True, False])
def test_optimizer_state_by_name_as_distributed_checkpoints_have_it(tmp_path, folder) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    model, optimizer = trained(torch.optim.AdamW)
    parts = dict(zip(("model", "optim"), get_state_dict(model, optimizer), strict=True))
    path = tmp_path / "dcp"
    if folder:
        dcp.save(parts, checkpoint_id=path)
    else:
        path = saved(tmp_path, parts)
    fresh = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    other = torch.optim.AdamW(reversed(list(fresh.parameters())))
    arrival = everybit.load_into(fresh, path, optimizer=other)
    assert (arrival.ok, arrival.optimizer) == (True, 4)
    mine, theirs = other.state[fresh[2].weight], optimizer.state[model[2].weight]
    assert torch.equal(mine["exp_avg"], theirs["exp_avg"])


@pytest.mark.parametrize("step", [-1, 1.5, True, "3"])
def test_a_vault_refuses_what_is_no_step(tmp_path, step) -> None:
    vault = everybit.Vault(tmp_path / "v")
    with pytest.raises(everybit.UsageError, match="whole number"):
        vault.save(step=step, model=nn.Linear(2, 2))
    assert list((tmp_path / "v").iterdir()) == []


def test_a_vault_takes_numbers_of_torch_and_numpy(tmp_path) -> None:
    vault = everybit.Vault(tmp_path / "v")
    model = nn.Linear(2, 2)
    vault.save(step=torch.tensor(7), model=model, counters={"epoch": np.int64(2)})
    best = {"best": [np.float32(0.5), (np.float64(2.0),)]}
    vault.save(step=np.int64(8), model=model, metrics=best)
    assert vault.restore(model=model).values["metrics"] == {"best": [0.5, (2.0,)]}
    assert vault.restore(step=7).step == 7


def test_a_vault_keeps_the_last_one_where_the_next_could_not_be_restored(tmp_path) -> None:
    vault = everybit.Vault(tmp_path / "v", keep=1)
    model = nn.Linear(2, 2)
    vault.save(step=1, model=model)
    with pytest.raises(everybit.UsageError, match="could not be restored"):
        vault.save(step=2, model=model, hook=Extra)
    assert vault.restore(model=model).step == 1


def test_what_killed_saves_left_is_removed_before_the_next_needs_the_room(tmp_path) -> None:
    vault = everybit.Vault(tmp_path / "v")
    left = tmp_path / "v" / ".step-000000001.abcd.part"
    left.mkdir()
    (left / "state.pt").write_bytes(b"half")

    class Full(nn.Module):
        def state_dict(self, *args: object, **kwargs: object) -> dict[str, object]:
            assert left.exists()
            return {"x": torch.zeros(2)}

    vault.save(step=1, model=Full())
    assert not left.exists()


def test_a_step_that_is_none_leaves_the_folder_as_it_was(tmp_path) -> None:
    everybit.save({"a": torch.ones(3)}, tmp_path / "a.pt", step=np.int64(4))
    for wrong in ({"step": "5"}, {"counters": {"epoch": "x"}}):
        with pytest.raises(everybit.UsageError):
            everybit.save({"b": torch.ones(3)}, tmp_path / "b.pt", **wrong)
    counters = {"loss": np.float32(0.5), "seen": torch.tensor(3)}
    everybit.save({"c": torch.ones(3)}, tmp_path / "c.pt", step=torch.tensor(6), counters=counters)
    assert everybit.verify(tmp_path).ok
    assert not (tmp_path / "b.pt").exists()


def test_a_device_or_pipe_is_not_replaced_by_a_file(tmp_path) -> None:
    import os
    import stat

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PathError, match="not a regular file"):
        everybit.save({"a": torch.ones(3)}, tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_names_that_cannot_be_are_one_line(tmp_path) -> None:
    for name in ("n" * 300 + ".pt", "n" * 250 + ".pt"):
        with pytest.raises(PathError):
            everybit.save({"a": torch.ones(3)}, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_whole_module_is_not_said_to_be_proved(tmp_path) -> None:
    with pytest.raises(everybit.UsageError, match="could not be proved"):
        everybit.save({"model": nn.Linear(2, 2)}, tmp_path / "m.pt")
    assert list(tmp_path.iterdir()) == []


def test_saves_of_several_processes_wait_for_each_other(tmp_path) -> None:
    import subprocess
    import sys

    script = (
        "import sys, torch, everybit\n"
        "vault = everybit.Vault(sys.argv[1], keep=2)\n"
        "for step in range(4):\n"
        "    vault.save(step=step, model=torch.nn.Linear(50, 50))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "v")]
    ranks = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [rank.communicate(timeout=120)[1] for rank in ranks] == ["", ""]
    assert everybit.Vault(tmp_path / "v").newest().step == 3
    assert everybit.verify(tmp_path / "v").ok


def test_a_checkpoint_under_another_ones_name_is_passed_over(tmp_path) -> None:
    import shutil

    vault = everybit.Vault(tmp_path / "v")
    good = vault.save(step=5, model=nn.Linear(2, 2))
    shutil.copytree(good, tmp_path / "v" / "step-000000050")
    newest = vault.newest()
    assert newest.step == 5
    assert "of step 5" in newest.passed_over["step-000000050"]


def test_a_vault_gives_extra_state_back(tmp_path) -> None:
    vault = everybit.Vault(tmp_path / "v")
    vault.save(step=1, model=Extra({"scale": 3.0}))
    model = Extra()
    restored = vault.restore(model=model)
    assert model.value == {"scale": 3.0}
    assert restored.not_taken == {}


def test_extra_state_that_nobody_takes_is_not_dropped_in_silence(tmp_path) -> None:
    vault = everybit.Vault(tmp_path / "v")
    vault.save(step=1, model=nn.ModuleDict({"a": Extra("kept"), "b": Extra("lost")}))
    model = nn.ModuleDict({"a": Extra(), "b": nn.ModuleDict({"inner": nn.Linear(3, 3)})})
    before = model["a"].inner.weight.clone()
    with pytest.raises(
        everybit.FindingsError, match=r"no part of the model takes .*b\._extra_state"
    ):
        vault.restore(model=model)
    assert torch.equal(model["a"].inner.weight, before)
    assert model["a"].value == 1
    restored = vault.restore(model=model, strict=False)
    assert restored.not_taken == {"model": ("b._extra_state",)}
    assert model["a"].value == "kept"


def test_extra_state_that_was_not_saved_is_missed(tmp_path) -> None:
    vault = everybit.Vault(tmp_path / "v")
    vault.save(step=1, model=nn.ModuleDict({"inner": nn.Linear(3, 3)}))
    with pytest.raises(everybit.FindingsError, match=r"not in the checkpoint .*_extra_state"):
        vault.restore(model=Extra())
