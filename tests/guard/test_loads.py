"""Loads of a program that was not edited: what does not arrive is told, what is meant is not."""

from __future__ import annotations

import warnings

import pytest
import torch
from tests.checkpoint.models import Small, Tied, seeded
from torch import nn

import everybit
from everybit import Guard
from everybit.core.config import Config


def _train(model, steps=2, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        model(torch.randn(4, 6, **options)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def _watched(tmp_path, body):
    with Guard(run=tmp_path / "run", every=1) as guard:
        body()
    return [finding for finding in guard.verdict.findings if finding.where.link == "load"], guard


def _state(prefix="", **kwargs):
    return {prefix + key: value for key, value in seeded(Small, 3, **kwargs).state_dict().items()}


def test_nothing_arrived_and_the_result_was_dropped(tmp_path):
    torch.save({"state_dict": _state("module.")}, tmp_path / "model.pt")

    def script():
        model = seeded(Small)
        state = torch.load(tmp_path / "model.pt")["state_dict"]
        model.load_state_dict(state, strict=False)
        _train(model)

    findings, guard = _watched(tmp_path, script)
    (finding,) = findings
    assert (finding.rule, finding.severity) == ("FIL116", everybit.Severity.ERROR)
    assert finding.certainty is everybit.Certainty.PROOF
    assert "nothing was loaded into Small from" in finding.message
    assert "remove the prefix `module.`" in finding.message
    assert finding.evidence["file"] == str(tmp_path / "model.pt")
    assert {item.what: item.count for item in guard.coverage.checked}["loads watched"] == 1


def test_most_did_not_arrive_and_a_rename_would_do(tmp_path):
    def script():
        model = seeded(Small)
        state = _state()
        mixed = {(k if k.startswith("head") else f"net.{k}"): v for k, v in state.items()}
        model.load_state_dict(mixed, strict=False)
        _train(model)

    (finding,), _ = _watched(tmp_path, script)
    assert (finding.rule, finding.severity) == ("FIL116", everybit.Severity.WARNING)
    assert finding.message.startswith("2 of 11 tensors of Small were loaded: 8 are missing")


def test_weights_initialised_again_before_the_first_step(tmp_path):
    def script():
        model = seeded(Small)
        model.load_state_dict(_state())
        for part in model.modules():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()
        _train(model)

    (finding,), _ = _watched(tmp_path, script)
    assert (finding.rule, finding.severity) == ("FIL116", everybit.Severity.WARNING)
    assert "initialised again after the load" in finding.message
    assert "body.0.weight" in finding.evidence["overwritten"]


def test_weights_initialised_again_through_data(tmp_path):
    def script():
        model = seeded(Small)
        model.load_state_dict(_state())
        for parameter in model.parameters():
            parameter.data.normal_(0, 0.02)
        _train(model)

    (finding,), _ = _watched(tmp_path, script)
    assert "hold unrelated values" in finding.message


def _new_head():
    model = seeded(Small, classes=9)
    state = {k: v for k, v in _state().items() if not k.startswith("head")}
    model.load_state_dict(state, strict=False)
    return model


def _other_head_name():
    model = seeded(Small)
    renamed = {k.replace("head.", "classifier."): v for k, v in _state().items()}
    model.load_state_dict(renamed, strict=False)
    return model


def _head_initialised_again():
    model = seeded(Small)
    model.load_state_dict(_state())
    model.head.reset_parameters()
    return model


def _head_replaced():
    model = seeded(Small)
    model.load_state_dict(_state())
    model.head = nn.Linear(8, 2)
    return model


def _last_layers_initialised_again():
    model = seeded(Small)
    model.load_state_dict(_state())
    model.body[3].reset_parameters()
    return model


def _without_counters():
    model = seeded(Small)
    state = {k: v for k, v in _state().items() if "num_batches" not in k}
    model.load_state_dict(state, strict=False)
    return model


def _adapter_only():
    model = seeded(Small)
    model.body[0].lora_A = nn.Linear(6, 2, bias=False)
    model.body[0].lora_B = nn.Linear(2, 8, bias=False)
    state = {k: torch.ones_like(v) for k, v in model.state_dict().items() if "lora_" in k}
    model.load_state_dict(state, strict=False)
    return model


def _a_part_of_the_file():
    model = seeded(Small)
    model.body.load_state_dict(
        {k.removeprefix("body."): v for k, v in _state().items()}, strict=False
    )
    return model


def _a_part_of_the_model():
    model = seeded(Small)
    state = {k: v for k, v in _state().items() if k.startswith("body.0")}
    model.load_state_dict(state, strict=False)
    return model


def _average_swapped_in():
    model = seeded(Small)
    model.load_state_dict(_state())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data.copy_(parameter * 0.9 + 0.01)
    return model


def _loaded_twice():
    model = seeded(Small)
    model.load_state_dict(_state())
    model.load_state_dict(seeded(Small, 8).state_dict())
    return model


def _converted():
    model = seeded(Small)
    model.load_state_dict(_state())
    return model.double()


def _wrapped():
    model = seeded(Small)
    nn.DataParallel(model).load_state_dict(_state("module."))
    return model


def _whole():
    model = seeded(Small)
    model.load_state_dict(_state())
    return model


@pytest.mark.parametrize(
    "load",
    [
        _new_head, _other_head_name, _head_initialised_again, _head_replaced,
        _last_layers_initialised_again, _without_counters, _adapter_only, _a_part_of_the_file,
        _a_part_of_the_model, _average_swapped_in, _loaded_twice, _wrapped, _whole,
    ],
)  # fmt: skip
def test_what_is_meant_is_no_finding(tmp_path, load):
    findings, guard = _watched(tmp_path, lambda: _train(load()))
    assert findings == []
    assert not guard.verdict.findings


def test_a_conversion_is_no_finding(tmp_path):
    findings, _ = _watched(tmp_path, lambda: _train(_converted(), dtype=torch.float64))
    assert findings == []


def test_a_tied_weight_that_the_file_leaves_out_is_no_finding(tmp_path):
    def script():
        model = seeded(Tied)
        state = seeded(Tied, 1).state_dict()
        del state["lm_head.weight"]
        model.load_state_dict(state, strict=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.tensor([1, 2])).sum().backward()
        optimizer.step()

    findings, guard = _watched(tmp_path, script)
    assert findings == []
    assert not guard.verdict.findings


def test_strict_errors_of_the_program_stay_its_own(tmp_path):
    def script():
        model = seeded(Small)
        with pytest.raises(RuntimeError, match=r"Missing key\(s\)"):
            model.load_state_dict(_state("module."))
        _train(model)

    findings, _ = _watched(tmp_path, script)
    assert findings == []


class _Square(nn.Module):
    def __init__(self, order):
        super().__init__()
        for name in order:
            setattr(self, name, nn.Linear(6, 6))

    def forward(self, x):
        return self.a(self.b(x))


def _optimizer_of(order, named):
    model = seeded(_Square, order=order)
    given = model.named_parameters() if named else model.parameters()
    return model, torch.optim.Adam(given)


@pytest.mark.parametrize("named", [True, False])
def test_moments_on_other_parameters(tmp_path, named):
    old, first = _optimizer_of("ab", named)
    old(torch.randn(3, 6)).sum().backward()
    first.step()

    def script():
        model, optimizer = _optimizer_of("ba", named)
        optimizer.load_state_dict(first.state_dict())
        for _ in range(2):
            model(torch.randn(3, 6)).sum().backward()
            optimizer.step()

    findings, _ = _watched(tmp_path, script)
    if not named:
        assert findings == []  # Nothing tells one square layer from the other.
        return
    (finding,) = findings
    assert (finding.rule, finding.severity) == ("FIL115", everybit.Severity.WARNING)
    assert ["a.weight", "b.weight"] in finding.evidence["moved"]


def test_moments_of_other_shapes(tmp_path):
    def script():
        model = seeded(Small)
        optimizer = torch.optim.Adam(model.parameters())
        state = optimizer.state_dict()
        state["state"] = {
            0: {
                "step": torch.tensor(1.0),
                "exp_avg": torch.zeros(3, 8),
                "exp_avg_sq": torch.zeros(3, 8),
            }
        }
        optimizer.load_state_dict(state)
        model(torch.randn(4, 6))

    (finding,), _ = _watched(tmp_path, script)
    assert finding.rule == "FIL115"
    assert "exp_avg of parameter 0 is [3, 8] and the parameter [8, 6]" in finding.message


def test_the_same_optimizer_again_is_no_finding(tmp_path):
    def script():
        model, optimizer = _optimizer_of("ab", True)
        model(torch.randn(3, 6)).sum().backward()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        wrapped = optimizer.state_dict()
        for group in wrapped["param_groups"]:
            group["param_names"] = [f"module.{name}" for name in group["param_names"]]
        optimizer.load_state_dict(wrapped)
        model(torch.randn(3, 6))

    findings, _ = _watched(tmp_path, script)
    assert findings == []


def _bert(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=12,
    )  # fmt: skip
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path / "bert")
    return transformers


def _call(model):
    model(input_ids=torch.tensor([[1, 2, 3]]))


def test_from_pretrained_with_a_new_head_is_no_finding(tmp_path):
    transformers = _bert(tmp_path)
    kind = transformers.BertForSequenceClassification

    def script():
        _call(kind.from_pretrained(tmp_path / "bert"))
        _call(transformers.BertForMaskedLM.from_pretrained(tmp_path / "bert"))
        _, info = kind.from_pretrained(tmp_path / "bert", output_loading_info=True)
        assert info["missing_keys"]

    findings, guard = _watched(tmp_path, script)
    assert findings == []
    assert {item.what: item.count for item in guard.coverage.checked}["loads watched"] == 3
    assert not hasattr(vars(kind.__mro__[2]).get("from_pretrained"), "__self__")


def test_from_pretrained_that_fills_hardly_anything(tmp_path):
    transformers = _bert(tmp_path)
    config = transformers.BertConfig.from_pretrained(tmp_path / "bert")
    config.num_hidden_layers = 5

    def script():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _call(transformers.BertForMaskedLM.from_pretrained(tmp_path / "bert", config=config))

    (finding,), _ = _watched(tmp_path, script)
    assert (finding.rule, finding.severity) == ("FIL116", everybit.Severity.WARNING)
    assert "others than a head were initialised afresh" in finding.message
    assert any("layer.2" in name for name in finding.evidence["missing"])


def test_numbers_and_functions_are_left_as_they_were(tmp_path):
    def run():
        torch.manual_seed(7)
        model = seeded(Small)
        model.load_state_dict(_state("net."), strict=False)
        model.load_state_dict(_state())
        _train(model, steps=3)
        return everybit.digest([model.state_dict(), torch.get_rng_state()])

    before = (torch.load, nn.Module.load_state_dict, torch.optim.Optimizer.load_state_dict)
    alone = run()
    watched = []
    _watched(tmp_path, lambda: watched.append(run()))
    assert watched == [alone]
    assert before == (torch.load, nn.Module.load_state_dict, torch.optim.Optimizer.load_state_dict)


def test_steps_that_were_not_checked_are_no_overwriting(tmp_path):
    with Guard(run=tmp_path / "run", every=3) as guard:
        model = seeded(Small)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(7):
            if step == 1:
                model.load_state_dict(_state())
            if step == 2:  # as an update would that nobody looked at
                for parameter in model.parameters():
                    parameter.data.normal_()
            model(torch.randn(4, 6)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not [finding for finding in guard.findings if finding.where.link == "load"]


def test_what_is_found_is_in_the_runs_verdict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))\n"
        "state = {f'module.{k}': v for k, v in model.state_dict().items()}\n"
        "torch.save(state, 'model.pt')\n"
        "model.load_state_dict(torch.load('model.pt'), strict=False)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(2):\n"
        "    model(torch.ones(1, 4)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    outcome = everybit.run(str(script), config=Config(run=tmp_path / "r"))
    assert outcome.exit_code == 0
    (finding,) = [each for each in outcome.verdict.findings if each.rule == "FIL116"]
    assert "nothing was loaded into Sequential from model.pt" in finding.message
    assert finding.where.link == "load"


def test_an_optimizer_that_matches_by_name_itself_is_no_finding(tmp_path):
    old, first = _optimizer_of("ab", True)
    old(torch.randn(3, 6)).sum().backward()
    first.step()

    def by_name(optimizer, state):
        given = state["param_groups"][0]
        number = dict(zip(given["param_names"], given["params"], strict=True))
        names = optimizer.param_groups[0]["param_names"]
        places = {place: state["state"][number[name]] for place, name in enumerate(names)}
        return {"state": places, "param_groups": [{**given, "param_names": names}]}

    def script():
        model, optimizer = _optimizer_of("ba", True)
        optimizer.register_load_state_dict_pre_hook(by_name)
        optimizer.load_state_dict(first.state_dict())
        assert torch.equal(
            optimizer.state[model.a.weight]["exp_avg"], first.state[old.a.weight]["exp_avg"]
        )
        model(torch.randn(3, 6))

    findings, _ = _watched(tmp_path, script)
    assert findings == []


def test_what_torch_refuses_ends_no_checks(tmp_path, capfd):
    def script():
        model = seeded(Small)
        optimizer = torch.optim.Adam(model.parameters())
        for wrong in ({"x": 1}, {"state": 3}, {"state": {}, "param_groups": [{"lr": 1}]}):
            with pytest.raises((KeyError, TypeError, ValueError)):
                optimizer.load_state_dict(wrong)
        model.load_state_dict(_state("module."), strict=False)
        _train(model)

    findings, _ = _watched(tmp_path, script)
    assert [finding.rule for finding in findings] == ["FIL116"]
    assert "a fault of its own" not in capfd.readouterr().err
