"""Parts of one checkpoint that do not belong together: moments, names, averages, counters."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from tests.files.checkpoints import runs

import everybit
from everybit.core.finding import Certainty, Severity


def only_finding(path, state=None):
    if state is not None:
        torch.save(state, path)
    (finding,) = everybit.verify(path).findings
    return finding


def trained(steps=5, **options):
    run = runs.Run(**options)
    run.train(steps)
    return run.state()


def named(order=None):
    """A model and Adam state with names, as torch keeps them; `order` renames by position."""
    model = torch.nn.ModuleDict({key: torch.nn.Linear(6, 6) for key in "abc"})
    optimizer = torch.optim.Adam(model.named_parameters(), 0.1)
    sum((p * p).sum() for p in model.parameters()).backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    if order:
        state["optimizer"]["param_groups"][0]["param_names"] = order
    return state


# -- moments


def test_moments_of_another_parameter_by_name(tmp_path):
    state = named()
    held = state["optimizer"]["state"]
    held[0], held[1] = held[1], held[0]
    finding = only_finding(tmp_path / "c.pt", state)
    assert (finding.rule, finding.where.parameter) == ("FIL115", "a.weight")
    assert "[6]" in finding.message
    assert finding.severity is Severity.ERROR


def test_moments_of_one_entry_that_differ_are_proof(tmp_path):
    state = trained()
    state["optimizer"]["state"][2]["exp_avg_sq"] = torch.zeros(12)
    finding = only_finding(tmp_path / "c.pt", state)
    assert (finding.rule, finding.certainty) == ("FIL115", Certainty.PROOF)
    assert finding.where.tensor == "optimizer.state.2.exp_avg_sq"


def test_moments_exchanged_by_position(tmp_path):
    state = trained()
    held = state["optimizer"]["state"]
    held[4], held[5] = held[5], held[4]
    finding = only_finding(tmp_path / "c.pt", state)
    assert (finding.rule, finding.where.parameter) == ("FIL115", "2.weight")


def test_names_in_another_order_than_the_model_has(tmp_path):
    state = named(order=["a.weight", "a.bias", "c.weight", "c.bias", "b.weight", "b.bias"])
    finding = only_finding(tmp_path / "c.pt", state)
    assert (finding.rule, finding.severity) == ("FIL115", Severity.WARNING)
    assert finding.where.parameter == "c.bias"


def test_layers_that_changed_places_since_the_optimizer_was_saved(tmp_path):
    """What torch does after a change of order: old names, new positions, no word."""

    def build(keys):
        model = torch.nn.ModuleDict({key: torch.nn.Linear(6, 6, bias=False) for key in keys})
        return model, torch.optim.Adam(model.named_parameters(), 0.1)

    old, optimizer = build("ab")
    sum((p * p).sum() for p in old.parameters()).backward()
    optimizer.step()
    new, other = build("ba")
    other.load_state_dict(optimizer.state_dict())
    state = {"model": new.state_dict(), "optimizer": other.state_dict()}
    assert state["optimizer"]["param_groups"][0]["param_names"] == ["a.weight", "b.weight"]
    # Of two, the other order is also the reversed one, which some people choose.
    torch.save(state, tmp_path / "two.pt")
    assert everybit.verify(tmp_path / "two.pt").ok
    old, optimizer = build("abc")
    sum((p * p).sum() for p in old.parameters()).backward()
    optimizer.step()
    new, other = build("bac")
    other.load_state_dict(optimizer.state_dict())
    state = {"model": new.state_dict(), "optimizer": other.state_dict()}
    assert only_finding(tmp_path / "c.pt", state).rule == "FIL115"


def test_state_of_parameters_that_no_group_lists(tmp_path):
    state = trained()
    state["optimizer"]["state"][8] = copy.deepcopy(state["optimizer"]["state"][0])
    finding = only_finding(tmp_path / "c.pt", state)
    assert (finding.rule, finding.evidence["unlisted"]) == ("FIL115", ["8"])


def test_state_of_more_parameters_than_there_are(tmp_path):
    state = trained()
    del state["model"]["2.weight"], state["ema"]["2.weight"]
    finding = only_finding(tmp_path / "c.pt", state)
    assert (finding.rule, finding.evidence["shape"]) == ("FIL115", [12, 24])


def harmless():
    yield "plain", trained()
    yield "step 0", runs.Run().state()
    model = runs.network()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    yield "frozen", trained(model=model)
    for name, make in {
        "SGD": lambda p: torch.optim.SGD(p, 0.1),
        "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        "amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True),
        "Adafactor": torch.optim.Adafactor,
        "ASGD": torch.optim.ASGD,
        "Rprop": torch.optim.Rprop,
        "NAdam": torch.optim.NAdam,
        "Muon": lambda p: torch.optim.Muon([x for x in p if x.ndim == 2]),
        "LBFGS": lambda p: torch.optim.LBFGS(p),
    }.items():
        if name == "LBFGS":
            continue
        yield name, trained(optimizer=make)
    run = runs.Run(optimizer=lambda p: torch.optim.AdamW(
        [{"params": [x for x in p if x.ndim > 1]}, {"params": [x for x in p if x.ndim < 2]}]
    ))  # fmt: skip
    run.train(3)
    yield "decay groups", run.state()
    run = runs.Run(optimizer=lambda p: torch.optim.AdamW(p[4:]))
    run.train(6)
    run.optimizer.add_param_group({"params": list(run.model.parameters())[:4]})
    run.schedule = torch.optim.lr_scheduler.LinearLR(run.optimizer)
    run.train(4)
    yield "late group", run.state()
    yield "head first", trained(optimizer=lambda p: torch.optim.AdamW([*p[6:], *p[:6]]))
    yield "reversed", trained(optimizer=lambda p: torch.optim.AdamW(p[::-1]))
    state = trained()
    yield "restart of weights alone", {**state, "optimizer": runs.Run().state()["optimizer"]}
    one, other = trained(), trained()
    yield "two of each", {
        "G": one["model"], "D": other["model"], "opt_G": one["optimizer"],
        "opt_D": other["optimizer"], "step": 9,
    }  # fmt: skip
    yield "names", named()
    yield "groups of names", named_groups()
    state = trained()
    state["ema"] = {f"module.{name}": tensor for name, tensor in state["ema"].items()}
    state["ema"]["n_averaged"] = torch.tensor(5)
    yield "wrapped average", state
    state = trained()
    state["ema"] = {"shadow": state["ema"], "decay": 0.99, "num_updates": 5}
    yield "average with its decay", state
    state = trained()
    state["ema"] = {"shadow_params": list(state["ema"].values()), "decay": 0.99}
    yield "average as a list", state
    state = runs.Run().state()
    state["ema"] = dict(state["model"])
    yield "fresh average at step 0", {**state, "scheduler": {}}
    state = trained()
    state["step"] = 2
    yield "counter of its own", state
    flat = torch.cat([v["exp_avg"].flatten() for v in trained()["optimizer"]["state"].values()])
    state = trained()
    state["optimizer"]["state"] = {0: {"step": 5, "exp_avg": flat, "exp_avg_sq": flat}}
    yield "flat shard", state


def named_groups():
    model = torch.nn.ModuleDict({key: torch.nn.Linear(6, 6) for key in "abc"})
    pairs = list(model.named_parameters())
    optimizer = torch.optim.Adam([{"params": pairs[4:]}, {"params": pairs[:4], "lr": 0.1}])
    sum((p * p).sum() for p in model.parameters()).backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


@pytest.mark.parametrize(("name", "state"), list(harmless()), ids=lambda v: str(v)[:24])
def test_nothing_is_found_in(tmp_path, name, state):
    torch.save(state, tmp_path / "c.pt")
    verdict = everybit.verify(tmp_path / "c.pt")
    assert not verdict.findings, [f.message for f in verdict.findings]
    assert everybit.verify(tmp_path, level="structure").findings == ()


# -- averages


def test_an_average_of_another_model(tmp_path):
    state = trained()
    state["ema"]["2.weight"] = torch.randn(12, 25)
    finding = only_finding(tmp_path / "c.pt", state)
    assert (finding.rule, finding.where.tensor) == ("FIL115", "ema.2.weight")
    state = trained()
    state["ema"]["9.weight"] = torch.randn(3, 3)
    assert "9.weight" in only_finding(tmp_path / "c.pt", state).message
    state = trained()
    del state["ema"]["3.bias"]
    assert "3.bias" in only_finding(tmp_path / "c.pt", state).message


def test_an_average_that_is_the_model_itself(tmp_path):
    state = trained()
    state["ema"] = dict(state["model"])
    finding = only_finding(tmp_path / "c.pt", state)
    assert finding.rule == "FIL115"
    assert finding.evidence["num_shared"] == 8


# -- counters


@pytest.mark.parametrize("step", [5.5, -1.0, float("nan"), float("inf"), 1e20])
def test_a_step_that_no_count_gives(tmp_path, step):
    state = trained()
    state["optimizer"]["state"][3]["step"] = torch.tensor(step)
    (finding,) = _verify(tmp_path / "c.pt", state).findings  # NaN and Inf are told as FIL112
    assert finding.where.tensor == "optimizer.state.3.step"


def _verify(path, state):
    torch.save(state, path)
    return everybit.verify(path)


def test_a_step_one_bit_from_all_others(tmp_path):
    state = trained(8)
    state["optimizer"]["state"][3]["step"] = torch.tensor(12.0)
    assert only_finding(tmp_path / "c.pt", state).where.tensor == "optimizer.state.3.step"
    state["optimizer"]["state"][3]["step"] = torch.tensor(4.0)  # joined later
    assert _verify(tmp_path / "c.pt", state).ok


@pytest.fixture
def trainer(tmp_path):
    return runs.save_trainer(tmp_path / "t", runs.states(runs.Run()))


def test_an_optimizer_of_another_step_in_a_trainer_folder(trainer):
    newest, before = trainer[3], trainer[1]
    (newest / "optimizer.pt").write_bytes((before / "optimizer.pt").read_bytes())
    for target, level in ((newest.parent, "structure"), (newest.parent, "full"), (newest, "full")):
        (finding,) = everybit.verify(target, level=level).findings
        assert finding.rule == "FIL115"
        assert finding.where.path.endswith("optimizer.pt")
        assert (finding.evidence["counted"], finding.evidence["global_step"]) == (20, 40)
    assert everybit.verify(newest.parent).stats["newest_whole"] == "checkpoint-30"
    (finding,) = everybit.verify(newest.parent).findings
    assert finding.evidence["step_of"] == "checkpoint-20"


def test_a_trainer_state_of_another_step(trainer):
    (trainer[2] / "trainer_state.json").write_bytes(
        (trainer[1] / "trainer_state.json").read_bytes()
    )
    (finding,) = everybit.verify(trainer[0].parent, level="structure").findings
    assert (finding.rule, finding.severity) == ("FIL106", Severity.ERROR)
    assert finding.where.path == "checkpoint-30/trainer_state.json"


def test_a_folder_under_another_number(trainer):
    trainer[3].rename(trainer[3].with_name("checkpoint-50"))
    (finding,) = everybit.verify(trainer[0].parent, level="structure").findings
    assert (finding.rule, finding.severity) == ("FIL106", Severity.WARNING)


@pytest.mark.parametrize("skipped", [1, 4])
def test_steps_that_a_scaler_skipped_are_no_finding(trainer, skipped):
    for place in trainer:
        state = torch.load(place / "optimizer.pt")
        for entry in state["state"].values():
            entry["step"] -= skipped
        torch.save(state, place / "optimizer.pt")
        schedule = torch.load(place / "scheduler.pt")
        schedule["last_epoch"] -= skipped
        torch.save(schedule, place / "scheduler.pt")
    assert everybit.verify(trainer[0].parent, level="structure").ok


def test_the_scheduler_of_a_sibling(trainer, only):
    place = trainer[3].parent
    (trainer[3] / "scheduler.pt").write_bytes((trainer[1] / "scheduler.pt").read_bytes())
    finding = only(place)
    assert (finding.rule, finding.where.path) == ("FIL115", "checkpoint-40/scheduler.pt")
    assert finding.evidence["step_of"] == "checkpoint-20"
    assert everybit.verify(place).stats["newest_whole"] == "checkpoint-30"


def test_a_scheduler_that_counts_epochs(trainer, found):
    for number, place in enumerate(trainer):
        schedule = torch.load(place / "scheduler.pt")
        # 10 updates an epoch, but for one sibling whose count meets another's step by chance.
        schedule["last_epoch"] = 10 if number == 3 else number + 1
        torch.save(schedule, place / "scheduler.pt")
    assert found(trainer[0].parent) == set()


def test_a_resumed_run_with_a_new_optimizer_and_a_new_scheduler(trainer, found):
    schedule = torch.load(trainer[3] / "scheduler.pt")
    schedule["last_epoch"] = 10
    torch.save(schedule, trainer[3] / "scheduler.pt")
    state = torch.load(trainer[3] / "optimizer.pt")
    for entry in state["state"].values():
        entry["step"] -= 30
    torch.save(state, trainer[3] / "optimizer.pt")
    assert found(trainer[0].parent) == set()


def test_lightning_counts_in_its_own_words(tmp_path):
    run = runs.Run()
    run.train(10)
    state = run.state()
    saved = {
        "pytorch-lightning_version": "2.6", "global_step": 10, "epoch": 1,
        "state_dict": state["model"], "optimizer_states": [state["optimizer"]],
    }  # fmt: skip
    path = tmp_path / "epoch=1-step=10.ckpt"
    assert _verify(path, saved).ok
    assert _verify(path, saved | {"global_step": 20}).findings[0].rule == "FIL106"  # its name
    assert _verify(tmp_path / "last.ckpt", saved | {"global_step": 20}).ok  # two optimizers
    found = _verify(tmp_path / "last.ckpt", saved | {"global_step": 5}).findings
    assert [f.rule for f in found] == ["FIL115"]


def test_a_state_that_is_not_json_says_nothing(trainer):
    for text in ("[]", '{"global_step": "7"}', json.dumps({"global_step": True})):
        (trainer[0] / "trainer_state.json").write_text(text)
        assert everybit.verify(trainer[0], level="structure").ok
    for text in ("", "{"):
        (trainer[0] / "trainer_state.json").write_text(text)
        (finding,) = everybit.verify(trainer[0], level="structure").findings
        assert (finding.rule, finding.where.path) == ("FIL107", "trainer_state.json")


def test_a_model_whose_keys_were_sorted_says_nothing_of_its_order(tmp_path):
    state = named()
    state["model"] = dict(sorted(state["model"].items()))
    assert _verify(tmp_path / "c.pt", state).ok


def test_what_an_optimizer_has_too_much_is_not_said_where_files_are_missing(tmp_path):
    (place,) = runs.save_trainer(tmp_path / "t", runs.states(runs.Run(), (5,)))
    path = place / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-40])
    assert [f.rule for f in everybit.verify(place, level="structure").findings] == ["FIL104"]
