"""Carried state as a value: captured, put back bit for bit, compared."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from tests.probe.tensors import DTYPES, filled, layouts
from torch import nn

from everybit.core.errors import DamagedError, PathError
from everybit.probe.state import Kind, State


class Net(nn.Module):
    """Tied weights, batch norm, dropout, a buffer that is not saved, and a counter in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.3)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.register_buffer("seen", torch.zeros(3, dtype=torch.int64), persistent=False)
        self.register_buffer("nothing", None)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen += 1
        return self.second(self.drop(self.norm(self.first(x))))


def sgd(p: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(p, lr=0.1, momentum=0.9)


OPTIMIZERS: dict[str, Any] = {
    "sgd": sgd,
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "tensor lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), foreach=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3, history_size=2),
}


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, after: Any = None
) -> None:
    for _ in range(steps):
        x = torch.randn(8, 6) + random.random() + np.random.rand()

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = model(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        if after is not None:
            after()


def seed() -> None:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("before", [0, 2])
def test_training_from_a_restored_state_repeats_to_the_last_bit(name: str, before: int) -> None:
    seed()
    model = Net()
    optimizer = OPTIMIZERS[name](model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)

    def capture(base: State | None = None) -> State:
        return State.capture(
            {"": model}, {"opt": optimizer}, schedulers=[scheduler], gradients=True, base=base
        )

    train(model, optimizer, before, scheduler.step)
    start = capture()
    at = [p.data_ptr() for p in model.parameters()]
    train(model, optimizer, 3, scheduler.step)
    end = capture(start)
    assert not start.equals(end)
    start.restore()
    again = capture()
    assert again.equals(start)
    assert again.digest() == start.digest()
    assert not start.differs(again)
    assert [p.data_ptr() for p in model.parameters()] == at
    train(model, optimizer, 3, scheduler.step)
    assert capture().digest() == end.digest()


def test_state_that_came_later_goes_and_what_went_comes_back() -> None:
    model = Net()
    optimizer = sgd(model.parameters())
    start = State.capture({"": model}, {"opt": optimizer})
    train(model, optimizer, 1)
    assert len(optimizer.state) > 0
    momentum = optimizer.state[model.first.bias]["momentum_buffer"]
    after = State.capture({"": model}, {"opt": optimizer})
    start.restore()
    assert len(optimizer.state) == 0
    after.restore()
    assert optimizer.state[model.first.bias]["momentum_buffer"] is momentum
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
    model.register_buffer("late", torch.ones(1))
    del model._buffers["seen"]
    after.restore()
    assert len(optimizer.param_groups) == 1
    assert "late" not in model._buffers
    assert list(model._buffers) == ["seen", "nothing"]


def test_gradients_are_as_captured_or_left_alone() -> None:
    model = Net()
    without = State.capture({"": model})
    none = State.capture({"": model}, gradients=True)
    model(torch.randn(4, 6)).sum().backward()
    gradient = model.first.bias.grad
    assert gradient is not None
    kept = gradient.clone()
    some = State.capture({"": model}, gradients=True)
    without.restore()
    assert model.first.bias.grad is gradient
    gradient.zero_()
    some.restore()
    assert model.first.bias.grad is gradient
    assert torch.equal(gradient, kept)
    none.restore()
    assert model.first.bias.grad is None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_layout_comes_back(dtype: torch.dtype) -> None:
    for name, tensor in layouts(dtype):
        module = nn.Module()
        module.register_buffer("b", tensor)
        wanted = [tensor.stride(), tensor.data_ptr(), State.capture({"": module}).words()]
        state = State.capture({"": module}, rng=False)
        raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        raw ^= 1
        assert tensor.numel() == 0 or State.capture({"": module}).words() != wanted[2], name
        state.restore()
        found = [tensor.stride(), tensor.data_ptr(), State.capture({"": module}).words()]
        assert found[:2] == wanted[:2], name
        assert found[2][:1] == wanted[2][:1], name


def test_sparse_quantised_and_inference_tensors_come_back() -> None:
    module = nn.Module()
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    module.register_buffer("sparse", dense.to_sparse())
    module.register_buffer("csr", dense.to_sparse_csr())
    module.register_buffer("quantised", torch.quantize_per_tensor(dense, 0.1, 3, torch.qint8))
    with torch.inference_mode():
        module.register_buffer("inference", torch.ones(3))
    state = State.capture({"": module})
    module.sparse._values().mul_(3)
    module.csr.values().mul_(3)
    module.quantised.copy_(torch.quantize_per_tensor(-dense, 0.1, 3, torch.qint8))
    with torch.inference_mode():
        module.inference.zero_()
    later = State.capture({"": module}, base=state)
    assert {place.name for place in state.differs(later)} == set(module._buffers)
    state.restore()
    assert State.capture({"": module}).digest() == state.digest()


def test_a_meta_or_lazy_tensor_is_no_obstacle() -> None:
    model = nn.Sequential(nn.Linear(3, 3, device="meta"), nn.LazyLinear(2))
    State.capture({"": model}).restore()


def test_what_did_not_change_shares_its_copy() -> None:
    model = Net()
    first = State.capture({"": model})
    with torch.no_grad():
        model.first.bias.add_(1)
    second = State.capture({"": model}, base=first)
    shared = [name for name, e in second._entries.items() if e.copy is first._entries[name].copy]
    assert sorted(shared) == sorted(set(first._entries) - {"first.bias"})
    assert "second.weight" not in first._entries  # tied: once
    assert first.num_bytes == 4 * (36 + 6 * 6) + 8 + 24


def test_the_differing_elements_are_named() -> None:
    model = Net()
    optimizer = sgd(model.parameters())
    train(model, optimizer, 1)
    start = State.capture({"": model}, {"SGD": optimizer})
    with torch.no_grad():
        model.first.weight.view(torch.int32)[2, 3] ^= 1 << 30
        optimizer.state[model.norm.bias]["momentum_buffer"][1:3] += 1
    optimizer.param_groups[0]["lr"] = 0.2
    random.random()
    places = {p.name: p for p in start.differs(State.capture({"": model}, {"SGD": optimizer}))}
    weight = places.pop("first.weight")
    assert (weight.kind, weight.elements, weight.num_bits) == (Kind.PARAMETER, (15,), 1)
    assert weight.changes[0].bits == (30,)
    assert weight.where["parameter"] == "first.weight"
    moment = places.pop("SGD::momentum_buffer::norm.bias")
    assert (moment.elements, moment.optimizer, moment.tensor) == (
        (1, 2),
        "SGD",
        "momentum_buffer",
    )
    assert places.pop("SGD.group0.lr").detail == "0.1 -> 0.2"
    assert places.pop("rng.python").kind is Kind.RNG
    assert not places


def test_a_damaged_copy_raises_and_nothing_is_written() -> None:
    model = Net()
    state = State.capture({"": model})
    with torch.no_grad():
        model.first.bias.fill_(7)
    before = copy.deepcopy(model.state_dict())
    state._entries["norm.weight"].copy.bytes_()[5] ^= 4
    with pytest.raises(DamagedError, match=r"norm\.weight"):
        state.restore()
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_past_the_memory_copies_go_to_a_file_and_come_back(tmp_path: Any) -> None:
    model = Net()
    state = State.capture({"": model}, memory_bytes=100, folder=tmp_path)
    assert not list(tmp_path.iterdir())  # It has no name.
    wanted = state.digest()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    state.restore()
    assert State.capture({"": model}).words()[:5] == state.words()[:5]
    assert state.digest() == wanted
    with pytest.raises(PathError, match="room"):
        State.capture({"": model}, memory_bytes=0, folder=tmp_path / "missing")


def test_a_scaler_goes_back_with_its_tensors() -> None:
    model, scaler = nn.Linear(2, 2), torch.amp.GradScaler("cpu", init_scale=2.0**40)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fresh = State.capture({"": model}, {"o": optimizer}, scaler=scaler)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = model(torch.ones(3, 2)).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    step()
    assert scaler.get_scale() == 2.0**39
    one = State.capture({"": model}, {"o": optimizer}, scaler=scaler)
    tensor = scaler._scale
    step()
    one.restore()
    assert scaler._scale is tensor
    assert scaler.get_scale() == 2.0**39
    step()
    fresh.restore()
    assert scaler.get_scale() == 2.0**40
    step()
    assert State.capture({"": model}, {"o": optimizer}, scaler=scaler).digest() == one.digest()


def test_weights_in_other_memory_come_back_whole() -> None:
    model = nn.Linear(3, 3)
    state = State.capture({"": model})
    weight = model.weight
    model.half()
    model.weight.data = torch.zeros(5)
    state.restore()
    assert model.weight is weight
    assert State.capture({"": model}).equals(State.capture({"": model}, base=state))
    assert [w for n, w in State.capture({"": model}).words() if n == "weight"] == [
        w for n, w in state.words() if n == "weight"
    ]


def test_copies_of_a_live_tensor_are_found() -> None:
    model = nn.Linear(3, 3)
    state = State.capture({"": model})
    copied = state.copy_of(model.weight)
    assert copied is not None
    assert copied.bytes_().tobytes() == model.weight.detach().numpy().tobytes()
    assert state.copy_of(filled(torch.float32, (3,))) is None
