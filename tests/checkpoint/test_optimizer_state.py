"""Optimizer state is matched by parameter name and shape: it cannot land on another parameter."""

from __future__ import annotations

import pytest
import torch
from tests.checkpoint.models import Small, copies, same, seeded, trained
from torch import nn

import everybit


class Square(nn.Module):
    """Layers of one shape, so that shapes alone tell nothing; made in a given order."""

    def __init__(self, order=("a", "b", "c")):
        super().__init__()
        for name in order:
            setattr(self, name, nn.Linear(6, 6))

    def forward(self, x):
        return self.c(self.b(self.a(x)).relu()).relu()


def _state(tmp_path, model, optimizer, **more):
    path = tmp_path / "state.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), **more}, path)
    return path


def _moments(model, optimizer):
    return {
        name: {slot: value.clone() for slot, value in optimizer.state[parameter].items()}
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
    }


def _equal(one, other):
    return one.keys() == other.keys() and all(
        torch.equal(one[name][slot], other[name][slot]) for name in one for slot in one[name]
    )


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
@pytest.mark.parametrize("named", [False, True])
def test_state_arrives_with_the_model(tmp_path, make, named):
    def built(model):
        given = model.named_parameters() if named else model.parameters()
        return make(given, lr=0.3, **({"momentum": 0.9} if make is torch.optim.SGD else {}))

    source, model = seeded(Small), seeded(Small, 1)
    first = trained(source, built(source))
    second = built(model)
    for group in first.param_groups:
        group["lr"] = 0.125
    arrival = everybit.load_into(model, _state(tmp_path, source, first), optimizer=second)
    assert arrival.ok
    assert arrival.optimizer == len(list(model.parameters()))
    assert same(model, copies(source))
    assert _equal(_moments(model, second), _moments(source, first))
    assert second.param_groups[0]["lr"] == 0.125
    trained(source, first, seed=5)
    trained(model, second, seed=5)
    assert same(model, copies(source))


@pytest.mark.parametrize("named", [False, True])
def test_moments_follow_their_names_when_layers_change_their_order(tmp_path, named):
    source, model = seeded(Square), seeded(Square, 1, order=("c", "a", "b"))
    given = [m.named_parameters() if named else m.parameters() for m in (source, model)]
    first = trained(source, torch.optim.Adam(given[0]))
    second = torch.optim.Adam(given[1])
    assert everybit.load_into(model, _state(tmp_path, source, first), optimizer=second).ok
    assert _equal(_moments(model, second), _moments(source, first))
    if named:
        names = second.state_dict()["param_groups"][0]["param_names"]
        assert names[0] == "c.weight"


def test_groups_in_another_order_are_matched_by_name(tmp_path):
    def built(model, *, flip):
        named = list(model.named_parameters())
        decay = [pair for pair in named if pair[1].dim() > 1]
        rest = [pair for pair in named if pair[1].dim() <= 1]
        groups = [{"params": decay, "weight_decay": 0.5}, {"params": rest, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups[::-1] if flip else groups)

    source, model = seeded(Small), seeded(Small, 1)
    first, second = trained(source, built(source, flip=False)), built(model, flip=True)
    assert everybit.load_into(model, _state(tmp_path, source, first), optimizer=second).ok
    assert _equal(_moments(model, second), _moments(source, first))


def test_a_stale_list_of_names_is_refused(tmp_path):
    # M11: torch takes over the file's names with the moments; the next file misstates the order.
    old = seeded(Square)
    first = trained(old, torch.optim.Adam(old.named_parameters()))
    new = seeded(Square, order=("c", "a", "b"))
    second = torch.optim.Adam(new.named_parameters())
    second.load_state_dict(first.state_dict())
    path = _state(tmp_path, new, trained(new, second))
    model = seeded(Square, 1, order=("c", "a", "b"))
    before, third = copies(model), torch.optim.Adam(model.named_parameters())
    with pytest.raises(everybit.FindingsError, match=r"FIL115 .*another order than the keys"):
        everybit.load_into(model, path, optimizer=third)
    assert same(model, before)
    assert not third.state


def test_other_shapes_are_refused(tmp_path):
    source = seeded(Small)
    first = trained(source)
    state = first.state_dict()
    state["state"][0], state["state"][4] = state["state"][4], state["state"][0]
    path = tmp_path / "state.pt"
    torch.save({"model": source.state_dict(), "optimizer": state}, path)
    model = seeded(Small, 1)
    before, second = copies(model), torch.optim.AdamW(model.parameters())
    with pytest.raises(everybit.FindingsError, match=r"FIL115 .*shape \[8, 8\] and body.0.weight"):
        everybit.load_into(model, path, optimizer=second)
    assert same(model, before)
    assert not second.state


def test_another_number_of_parameters_is_refused_without_names_and_told_with(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    first = trained(source, torch.optim.Adam(list(source.parameters())[:-2]))
    path = _state(tmp_path, source, first)
    with pytest.raises(everybit.FindingsError, match=r"FIL115 .*\[6\] parameters.*\[8\]"):
        everybit.load_into(model, path, optimizer=torch.optim.Adam(model.parameters()))
    named = torch.optim.Adam(list(source.named_parameters())[:-2])
    path = _state(tmp_path, source, trained(source, named))
    second = torch.optim.Adam(model.named_parameters())
    with pytest.raises(everybit.FindingsError, match=r"FIL115 .*head.weight"):
        everybit.load_into(model, path, optimizer=second)
    arrival = everybit.load_into(model, path, optimizer=second, strict=False)
    assert arrival.optimizer == 6
    assert [finding.rule for finding in arrival.verdict.findings] == ["FIL115"]


def test_a_file_without_optimizer_state_says_so(tmp_path):
    source = seeded(Small)
    path = tmp_path / "model.pt"
    torch.save(source.state_dict(), path)
    optimizer = torch.optim.Adam(source.parameters())
    with pytest.raises(everybit.UsageError, match="holds no optimizer state"):
        everybit.load_into(source, path, optimizer=optimizer)


def test_a_tensor_learning_rate_and_nested_state_arrive(tmp_path):
    source, model = seeded(Small), seeded(Small, 1)
    first = torch.optim.AdamW(source.parameters(), lr=torch.tensor(0.01))
    trained(source, first)
    second = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.5))
    everybit.load_into(model, _state(tmp_path, source, first), optimizer=second)
    assert float(second.param_groups[0]["lr"]) == pytest.approx(0.01)
