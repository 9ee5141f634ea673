"""`everybit.load_into`: all of it arrives and that is proved, or nothing is touched."""

from __future__ import annotations

import os
import time

import pytest
import torch
from safetensors.torch import save_file
from tests.checkpoint.models import Small, Tied, copies, same, seeded, trained
from torch import nn

import everybit

FILE = "model.pt"


def _saved(tmp_path, state, name=FILE):
    path = tmp_path / name
    if name.endswith(".safetensors"):
        save_file({key: value.clone() for key, value in state.items()}, path)
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_everything_arrives_and_is_proved(tmp_path, name):
    source, model = seeded(Small), seeded(Small, 1)
    trained(source)
    arrival = everybit.load_into(model, _saved(tmp_path, source.state_dict(), name))
    assert same(model, copies(source))
    assert arrival.ok
    assert sorted(arrival.loaded) == sorted(source.state_dict())
    assert not any([arrival.missing, arrival.unexpected, arrival.mismatched, arrival.prefix])
    assert str(arrival).startswith("11 tensors arrived from ")
    assert arrival.verdict.stats["bytes"] == sum(t.nbytes for t in source.state_dict().values())


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "base_model.model.", "student."])
def test_a_prefix_is_refused_named_and_taken_away(tmp_path, prefix):
    source, model = seeded(Small), seeded(Small, 1)
    before = copies(model)
    path = _saved(tmp_path, {prefix + key: value for key, value in source.state_dict().items()})
    for strict in (True, False):
        with pytest.raises(everybit.FindingsError) as caught:
            everybit.load_into(model, path, strict=strict)
        assert same(model, before)
        line = str(caught.value)
        assert "FIL116 none of the 11 tensors" in line
        assert f"remove the prefix `{prefix}`" in line
        assert "11 of 11 fit" in line
        assert f'prefix="{prefix}"' in line
        assert caught.value.findings[0].severity is everybit.Severity.ERROR
    for given in (prefix, prefix.rstrip("."), "auto"):
        other = seeded(Small, 1)
        arrival = everybit.load_into(other, path, prefix=given)
        assert arrival.ok
        assert f"`{prefix}`" in arrival.prefix
        assert same(other, copies(source))


def test_a_prefix_that_the_file_lacks_is_added(tmp_path):
    source = seeded(Small)
    model = nn.ModuleDict({"encoder": seeded(Small, 1)})
    path = _saved(tmp_path, source.state_dict())
    with pytest.raises(everybit.FindingsError, match=r"add the prefix `encoder.`"):
        everybit.load_into(model, path)
    assert everybit.load_into(model, path, prefix="encoder").ok
    assert same(model["encoder"], copies(source))


def test_one_prefix_for_another_and_levels_in_the_middle(tmp_path):
    source, model = seeded(Small), nn.ModuleDict({"encoder": seeded(Small, 1)})
    path = _saved(tmp_path, {f"net.{key}": value for key, value in source.state_dict().items()})
    with pytest.raises(everybit.FindingsError, match=r"replace the prefix `net.`.* by `encoder.`"):
        everybit.load_into(model, path)
    assert everybit.load_into(model, path, prefix="auto").ok
    wrapped = {k.replace("body.", "body._orig_mod."): v for k, v in source.state_dict().items()}
    inner = seeded(Small, 2)
    path = _saved(tmp_path, wrapped)
    with pytest.raises(everybit.FindingsError, match="leave out the levels of wrappers"):
        everybit.load_into(inner, path)
    assert everybit.load_into(inner, path, prefix="auto").ok
    assert same(inner, copies(source))


def test_a_compiled_or_wrapped_model_is_itself(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    path = _saved(tmp_path, source.state_dict())
    assert everybit.load_into(nn.DataParallel(model), path).ok
    assert same(model, copies(source))


@pytest.mark.parametrize("key", ["state_dict", "model", "model_state_dict"])
def test_a_state_dict_inside_a_checkpoint_is_found(tmp_path, key):
    source, model = seeded(Small), seeded(Small, 1)
    optimizer = trained(source)
    whole = {key: source.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7}
    arrival = everybit.load_into(model, _saved(tmp_path, whole))
    assert arrival.ok
    assert f"`{key}`" in arrival.prefix
    assert arrival.values["epoch"] == 7
    assert same(model, copies(source))


def test_a_key_is_chosen_by_name(tmp_path):
    source, average, model = seeded(Small), seeded(Small, 1), seeded(Small, 2)
    path = _saved(tmp_path, {"model": source.state_dict(), "ema": average.state_dict()})
    assert everybit.load_into(model, path, key="ema").ok
    assert same(model, copies(average))


def test_missing_and_unexpected_are_refused_and_told(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    before = copies(model)
    state = source.state_dict()
    del state["body.3.weight"]
    state["body.9.weight"] = torch.zeros(2)
    path = _saved(tmp_path, state)
    with pytest.raises(everybit.FindingsError, match=r"body.3.weight.*body.9.weight"):
        everybit.load_into(model, path)
    assert same(model, before)
    arrival = everybit.load_into(model, path, strict=False)
    assert not arrival.ok
    assert arrival.missing == ("body.3.weight",)
    assert arrival.unexpected == ("body.9.weight",)
    assert arrival.verdict.findings[0].severity is everybit.Severity.WARNING
    assert torch.equal(model.body[3].weight, before["body.3.weight"])
    assert torch.equal(model.head.weight, source.head.weight)


def test_a_new_head_is_harmless_where_it_was_asked_for(tmp_path):
    source, model = seeded(Small, classes=3), seeded(Small, 1, classes=5)
    path = _saved(tmp_path, source.state_dict())
    with pytest.raises(everybit.FindingsError, match=r"head.weight \[3, 8\] in the file, \[5, 8\]"):
        everybit.load_into(model, path)
    arrival = everybit.load_into(model, path, strict=False)
    assert arrival.ok
    assert set(arrival.mismatched) == {"head.weight", "head.bias"}
    assert "head of the model's own" in arrival.explained["head.weight"]
    assert "harmless: head.weight, head.bias" in str(arrival)


def test_another_model_altogether_is_never_taken_for_a_part(tmp_path):
    model = seeded(Small)
    path = _saved(tmp_path, {"conv.weight": torch.zeros(3), "conv.bias": torch.zeros(3)})
    with pytest.raises(everybit.FindingsError, match="none of the 2 tensors"):
        everybit.load_into(model, path, strict=False)


def test_tied_weights_are_explained(tmp_path):
    source, model = seeded(Tied), seeded(Tied, 1)
    state = source.state_dict()
    del state["lm_head.weight"]
    arrival = everybit.load_into(model, _saved(tmp_path, state, "model.safetensors"))
    assert arrival.ok
    assert arrival.tied == {"lm_head.weight": "embed.weight"}
    assert "tied to embed.weight" in str(arrival)
    assert model.lm_head.weight is model.embed.weight


def test_two_values_for_one_tied_tensor_are_refused(tmp_path):
    source, model = seeded(Tied), seeded(Tied, 1)
    before = copies(model)
    state = {**source.state_dict(), "lm_head.weight": torch.ones(11, 4)}
    with pytest.raises(everybit.FindingsError, match=r"one tensor .*two different ones"):
        everybit.load_into(model, _saved(tmp_path, state))
    assert same(model, before)


@pytest.mark.parametrize("gone", ["body.1.num_batches_tracked"])
def test_counters_that_start_anew_are_harmless(tmp_path, gone):
    source, model = seeded(Small), seeded(Small, 1)
    state = source.state_dict()
    del state[gone]
    arrival = everybit.load_into(model, _saved(tmp_path, state))
    assert arrival.ok
    assert arrival.missing == (gone,)
    assert "counts it anew" in arrival.explained[gone]


def test_other_dtypes_are_converted_told_and_proved(tmp_path):
    source, model = seeded(Small).double(), seeded(Small, 1).bfloat16()
    arrival = everybit.load_into(model, _saved(tmp_path, source.state_dict()))
    assert arrival.ok
    assert arrival.converted["head.weight"] == "float64 to bfloat16"
    assert "body.1.num_batches_tracked" not in arrival.converted
    assert torch.equal(model.head.weight, source.head.weight.bfloat16())
    assert "converted float64 to bfloat16: 10 tensors" in str(arrival)


def test_a_conversion_that_loses_values_is_refused(tmp_path):
    model = nn.Linear(2, 2).half()
    before = copies(model)
    state = {"weight": torch.full((2, 2), 70000.0), "bias": torch.zeros(2)}
    with pytest.raises(everybit.UsageError, match="4 of its values overflow"):
        everybit.load_into(model, _saved(tmp_path, state))
    with pytest.raises(everybit.UsageError, match="another kind of number"):
        everybit.load_into(model, _saved(tmp_path, {**state, "weight": torch.ones(2, 2).int()}))
    assert same(model, before)


def test_a_damaged_file_touches_nothing(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    before = copies(model)
    path = _saved(tmp_path, source.state_dict())
    data = bytearray(path.read_bytes())
    at = data.find(source.body[3].weight.detach().numpy().tobytes())
    data[at + 41] ^= 4
    path.write_bytes(data)
    with pytest.raises(everybit.FindingsError, match=r"FIL108 .*body\.3\.weight"):
        everybit.load_into(model, path)
    assert same(model, before)


def test_what_was_sealed_and_changed_is_noticed_in_safetensors_too(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    before = copies(model)
    path = _saved(tmp_path, source.state_dict(), "model.safetensors")
    everybit.seal(path)
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    with pytest.raises(everybit.FindingsError, match="FIL102"):
        everybit.load_into(model, path)
    assert same(model, before)


def test_nothing_in_the_file_is_run(tmp_path):
    flag = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(flag),)

    source, model = seeded(Small), seeded(Small, 1)
    path = _saved(tmp_path, {"state_dict": source.state_dict(), "args": Evil()})
    everybit.load_into(model, path)
    assert same(model, copies(source))
    assert not flag.exists()


def test_a_model_without_memory_is_refused(tmp_path):
    path = _saved(tmp_path, seeded(Small).state_dict())
    with torch.device("meta"):
        model = Small()
    with pytest.raises(everybit.UsageError, match=r"meta tensor has no bytes; .*to_empty"):
        everybit.load_into(model, path)
    with pytest.raises(everybit.UsageError, match="is no module"):
        everybit.load_into({}, path)
    with pytest.raises(everybit.EverybitError, match="no such file"):
        everybit.load_into(Small(), tmp_path / "nothing.pt")


def test_parameters_keep_their_identity_gradients_and_device(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    trained(model)
    parameters = list(model.parameters())
    gradients = [p.grad.clone() for p in parameters]
    state = torch.get_rng_state()
    everybit.load_into(model, _saved(tmp_path, source.state_dict()))
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert all(torch.equal(p.grad, g) for p, g in zip(parameters, gradients, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_still_there_names_what_was_overwritten(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    arrival = everybit.load_into(model, _saved(tmp_path, source.state_dict()))
    assert arrival.still_there().ok
    nn.init.normal_(model.body[0].weight)
    nn.init.zeros_(model.body[0].bias)
    verdict = arrival.still_there()
    assert [finding.rule for finding in verdict.findings] == ["FIL116"]
    assert verdict.findings[0].evidence["changed"] == ["body.0.weight", "body.0.bias"]
    assert "body.0.bias (all 0)" in verdict.findings[0].message
    model.body[0] = nn.Identity()
    gone = arrival.still_there().findings[0].evidence["gone"]
    assert gone == ["body.0.weight", "body.0.bias"]


def test_a_conversion_afterwards_is_no_overwriting(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    arrival = everybit.load_into(model, _saved(tmp_path, source.state_dict()))
    model.bfloat16()
    assert arrival.still_there().ok


def test_two_prefixes_that_fit_alike_are_told_and_none_is_taken(tmp_path):
    one, other, model = seeded(Small), seeded(Small, 1), seeded(Small, 2)
    before = copies(model)
    state = {f"g.{k}": v for k, v in one.state_dict().items()}
    state |= {f"d.{k}": v for k, v in other.state_dict().items()}
    path = _saved(tmp_path, state)
    for prefix in (None, "auto"):
        with pytest.raises(everybit.FindingsError, match="others would fit as many"):
            everybit.load_into(model, path, prefix=prefix)
    assert same(model, before)
    assert everybit.load_into(model, path, prefix="d.", strict=False).loaded
    assert same(model, copies(other))


def test_a_step_of_a_vault_is_loaded_like_any_folder(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    place = everybit.Vault(tmp_path).save(step=3, model=source, optimizer=trained(source))
    assert everybit.load_into(model, place).ok
    assert same(model, copies(source))


def test_a_file_that_shrinks_while_it_is_read_touches_nothing(tmp_path, monkeypatch):
    from everybit.checkpoint import loading

    source, model = seeded(Small), seeded(Small, 1)
    path, before = _saved(tmp_path, source.state_dict()), copies(model)
    original = loading.stage

    def stage(file, tensor, dtype):
        if tensor.name == "head.weight":
            os.truncate(path, 900)
        return original(file, tensor, dtype)

    monkeypatch.setattr(loading, "stage", stage)
    with pytest.raises(everybit.EverybitError, match=r"ends after \d+ of \d+ bytes"):
        everybit.load_into(model, path)
    assert same(model, before)


def test_ten_thousand_names_are_matched_in_time():
    from everybit.checkpoint.keys import match_keys, suggestion

    held = {f"layers.{i}.{part}.weight": (4, 4) for i in range(2500) for part in "abcd"}
    stored = {f"model.module.{name}": shape for name, shape in held.items()}
    began = time.perf_counter()
    match = match_keys(held, stored)
    assert "remove the prefix `model.module.`" in suggestion(match)
    assert match.better.num_fitting == 10_000
    assert time.perf_counter() - began < 5
