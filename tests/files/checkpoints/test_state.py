from __future__ import annotations

import collections
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files.checkpoints import runs

import everybit
from everybit.files.checkpoints.names import series_of, step_of, with_step
from everybit.files.checkpoints.state import read_training_state
from everybit.files.checkpoints.units import find_checkpoints, group_siblings


def state_of(value, path):
    torch.save(value, path)
    return read_training_state(path)


def test_a_plain_loop(tmp_path):
    run = runs.Run()
    run.train(7)
    found = state_of(run.state(), tmp_path / "c.pt")
    assert found.parameters == tuple(run.model.state_dict())
    (optimizer,) = found.optimizers
    assert (optimizer.root, optimizer.matched_by) == ("optimizer", "position")
    assert [entry.parameter for entry in optimizer.entries] == list(run.model.state_dict())
    assert optimizer.steps == [7.0] * 8
    assert {m.name for m in optimizer.entries[0].moments} == {"exp_avg", "exp_avg_sq"}
    assert optimizer.entries[0].moments[0].shape == (24, 12)
    assert (found.counters["step"], found.counters["scheduler.last_epoch"]) == (7, 7)
    assert found.schedulers == ("scheduler",)
    (average,) = found.averages
    assert (average.root, list(average.tensors)) == ("ema", list(run.model.state_dict()))
    assert found.rates == (run.optimizer.param_groups[0]["lr"],)


def test_names_of_parameters_where_the_file_says_them(tmp_path):
    model = runs.network()
    optimizer = torch.optim.Adam(model.named_parameters(), 0.1)
    model(torch.randn(2, 12)).sum().backward()
    optimizer.step()
    value = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}
    (found,) = state_of(value, tmp_path / "c.pt").optimizers
    assert found.matched_by == "names"
    assert found.names[0] == tuple(model.state_dict())
    assert [entry.parameter for entry in found.entries] == list(model.state_dict())


@pytest.mark.parametrize(
    ("make", "moments"),
    [
        (lambda p: torch.optim.SGD(p, 0.1), set()),
        (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), {"momentum_buffer"}),
        (lambda p: torch.optim.Adam(p, amsgrad=True), {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}),
        (lambda p: torch.optim.Adafactor(p), {"row_var", "col_var", "variance"}),
        (lambda p: torch.optim.Adagrad(p), {"sum"}),
        (lambda p: torch.optim.RMSprop(p, momentum=0.9), {"square_avg", "momentum_buffer"}),
    ],
)
def test_optimizers_of_torch(tmp_path, make, moments):
    run = runs.Run(make)
    run.train(3)
    (found,) = state_of(run.state(), tmp_path / "c.pt").optimizers
    assert found.num_parameters == 8
    assert {m.name for entry in found.entries for m in entry.moments} == moments


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: s["model"],
        lambda s: collections.OrderedDict(s["model"]),
        lambda s: {"state_dict": s["model"]},
        lambda s: {"model": s["model"], "epoch": 3, "args": {"lr": 1}},
        lambda s: {"net": s["model"], "optim": s["optimizer"], "acc": 0.9},
        lambda s: {"model": {f"module.{k}": v for k, v in s["model"].items()}, "step": 3},
    ],
)
def test_models_in_every_nest(tmp_path, wrap):
    run = runs.Run()
    found = state_of(wrap(run.state()), tmp_path / "c.pt")
    names = [name.removeprefix("module.") for name in found.parameters]
    assert names == list(run.model.state_dict())
    assert not found.averages


def test_a_model_with_a_part_called_ema_has_no_average(tmp_path):
    found = state_of({"ema.weight": torch.ones(3), "body.weight": torch.ones(2)}, tmp_path / "m.pt")
    assert not found.averages
    assert found.parameters == ("ema.weight", "body.weight")


def test_a_trainer_folder(tmp_path):
    run = runs.Run()
    (place,) = runs.save_trainer(tmp_path / "t", runs.states(run, (5,)))
    found = read_training_state(place)
    assert set(found.parameters) == set(run.model.state_dict())
    assert found.counters["scheduler.pt:last_epoch"] == 5
    assert found.optimizers[0].steps == [5.0] * 8
    assert len(found.models) == 1


def test_a_tied_weight_is_one_parameter(tmp_path):
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)})
    model["b"].weight = model["a"].weight
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    sum(p.sum() for p in model.parameters()).backward()
    optimizer.step()
    value = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    (found,) = state_of(value, tmp_path / "c.pt").optimizers
    assert [entry.parameter for entry in found.entries] == ["a.weight", "a.bias", "b.bias"]


@pytest.mark.parametrize("value", [None, 3, "text", [], {}, {"state": {}, "param_groups": []}])
def test_nothing_much(tmp_path, value):
    found = state_of(value, tmp_path / "c.pt")
    assert (found.parameters, found.counters) == ((), {})


@pytest.mark.parametrize(
    "value",
    [
        {"step": 10**400, "global_step": float("inf"), "epoch": float("nan"), "model": {"a.b": 1}},
        {"optimizer": {"state": {0: {"step": 10**400}, "a.b": {"step": 1}, None: {"step": 2}},
                       "param_groups": [{"params": ["x", None, 3.5, [1]], "lr": 10**400}, 7]}},
        {"optimizer": {"state": {0: {"exp_avg": torch.ones(2)}, 1: 3},
                       "param_groups": {"0": {"params": {"0": 0}, "param_names": {"0": "w"}}}},
         "ema": {"": torch.ones(2)}, "model": {"": torch.ones(2), ".": torch.ones(3)}},
        {"a": {"param_groups": [{"params": []}], "b": {"param_groups": [{"params": [0]}]}}},
        {"pytorch-lightning_version": "2", "global_step": -(10**30), "state_dict": {"w": 1}},
        {"ema.": {"ema": {"module": {"module": {"module": {"w.x": torch.ones(2)}}}}}, "model": {}},
    ],
)  # fmt: skip
def test_hostile_nests_raise_nothing(tmp_path, value):
    for step in (1, 2, 3):
        torch.save(value, tmp_path / f"ckpt_{step}.pt")
    read_training_state(tmp_path / "ckpt_1.pt")
    everybit.verify(tmp_path)
    everybit.verify(tmp_path / "ckpt_1.pt")


@pytest.mark.parametrize("text", ["1e400", "1" + "0" * 400, "-1", "0", "NaN", '"3"', "[3]"])
def test_hostile_trainer_states_and_configs_raise_nothing(tmp_path, text):
    places = runs.save_trainer(tmp_path / "t", runs.states(runs.Run(), (1, 2, 3)))
    shards = runs.save_sharded(tmp_path / "m", runs.llama(layers=2))
    for place in places:
        (place / "trainer_state.json").write_text(f'{{"global_step": {text}}}')
    keys = ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "text_config")
    config = ", ".join(f'"{key}": {text}' for key in keys)
    (shards[0].parent / "config.json").write_text(f"{{{config}}}")
    (places[0] / "adapter_config.json").write_text(f'{{"r": {text}}}')
    everybit.verify(tmp_path, level="structure")


@given(st.lists(st.text(max_size=30), max_size=12), st.integers(0, 10**20))
@settings(max_examples=200, deadline=None)
def test_any_names_of_files(names, step):
    for name in names:
        series_of(name)
        with_step(name, step)
        if (found := step_of(name)) is not None:
            assert 0 <= found < 10**18
    paths = [f"{a}/{b}" for a, b in itertools.pairwise(names)] + names
    checkpoints = find_checkpoints(paths)
    files = [file for checkpoint in checkpoints for file in checkpoint.files.values()]
    assert len(files) == len(set(files)) or len(paths) != len(set(paths))
    group_siblings(checkpoints)


@given(st.integers(0, 10**7))
def test_a_step_is_read_back_from_names(step):
    names = [
        f"checkpoint-{step}", f"epoch=3-step={step}.ckpt", f"iter_{step:07d}",
        f"model_{step:06d}.pt", f"ckpt{step}.pth", f"optim_{step:06d}_rank3.pt",
    ]  # fmt: skip
    for name in names:
        assert step_of(name) == step
        assert step_of(with_step(name, step + 1)) == step + 1
        assert series_of(name) == series_of(with_step(name, step + 1))
