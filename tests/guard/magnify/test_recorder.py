"""Operations of a step with the bits they read and give."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from everybit.api.zoom_walk import FirstOperation, first_operation
from everybit.core.reanchored import How
from everybit.guard.magnify.measure import distance, in_memory_order, measure
from everybit.guard.magnify.recorder import Recorder


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = torch.nn.Linear(8, 16)
        self.drop = torch.nn.Dropout(0.25)
        self.fc2 = torch.nn.Linear(16, 4)
        self.between: Any = lambda hidden: None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.fc1(x))
        self.between(hidden)
        return self.fc2(self.drop(hidden))


def _step(*, before: Any = None, between: Any = None, lr: float = 0.1, p: float = 0.25,
          hold: int = -1) -> Recorder:  # fmt: skip
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    x = torch.randn(4, 8)
    model.drop.p = p
    model.between = between or model.between
    recorder = Recorder(model.named_parameters, model.named_modules, hold=hold)
    recorder.start()
    if before is not None:
        before(model, x)
    loss = model(x).square().sum()
    optimizer.zero_grad()
    loss.backward()
    recorder.phase = "update"
    optimizer.step()
    recorder.stop()
    return recorder


def _first(**other: Any) -> FirstOperation | None:
    sides = (_step(), _step(**other))
    return first_operation(*([each.to_json() for each in side.events] for side in sides))


def _json(found: FirstOperation | None) -> FirstOperation:
    assert found is not None
    return found


def test_equal_steps_have_no_first_operation() -> None:
    assert _first() is None


def test_noting_changes_no_bit_and_ends() -> None:
    torch.manual_seed(0)
    model, x = Net(), torch.randn(4, 8)
    torch.manual_seed(1)
    plain = model(x)
    recorder = Recorder(model.named_parameters, model.named_modules)
    recorder.start()
    torch.manual_seed(1)
    noted = model(x)
    recorder.stop()
    count = len(recorder.events)
    torch.manual_seed(1)
    assert torch.equal(plain, noted)
    assert torch.equal(plain, model(x))
    assert count == len(recorder.events) > 0


def test_every_operation_has_its_module_and_phase() -> None:
    events = _step().events
    products = [each for each in events if each.op in ("aten.addmm.default", "aten.mm.default")]
    assert [(each.module, each.phase) for each in products] == [
        ("fc1", "forward"),
        ("fc2", "forward"),
        ("fc2", "backward"),
        ("fc2", "backward"),
        ("fc1", "backward"),
    ]
    assert {each.phase for each in events if "foreach" in each.op or "add_" in each.op} >= {
        "update"
    }


def test_a_weight_that_nothing_wrote_is_carried() -> None:
    def flip(model: Net, _x: torch.Tensor) -> None:
        model.fc2.weight.detach().numpy().view("int32")[1, 3] ^= 1 << 20

    found = _json(_first(before=flip))
    assert (found.how, found.name, found.module) == (How.CARRIED, "fc2.weight", "fc2")


def test_an_activation_changed_between_operations_is_carried() -> None:
    def flip(hidden: torch.Tensor) -> None:
        hidden.detach().numpy().view("int32")[1, 3] ^= 1 << 3

    found = _json(_first(between=flip))
    assert (found.how, found.phase) == (How.CARRIED, "forward")


def test_an_input_from_outside_is_given() -> None:
    def other(_model: Net, x: torch.Tensor) -> None:
        x.numpy()[0, 0] += 1

    found = _json(_first(before=other))
    assert (found.how, found.module) == (How.GIVEN, "fc1")


def test_another_number_is_told_with_its_values() -> None:
    found = _json(_first(lr=0.101))
    assert (found.how, found.phase) == (How.NUMBERS, "update")
    assert found.detail == "-0.1 in A, -0.101 in B"
    assert _json(_first(p=0.5)).module == "drop"


def test_another_operation_is_another_path() -> None:
    found = _json(_first(between=lambda hidden: torch.sin(hidden)))
    assert found.how is How.PATH
    assert "aten.sin.default" in found.detail


def test_another_random_stream_is_told() -> None:
    found = _json(_first(before=lambda *_: torch.manual_seed(7)))
    assert (found.how, found.module) == (How.RNG, "drop")


def test_what_an_operation_reads_and_gives_is_held_and_measured() -> None:
    events = _step().events
    number = next(at for at, each in enumerate(events) if each.op == "aten.addmm.default")
    held = _step(hold=number).held
    assert held is not None
    assert [list(tensor.shape) for tensor in held.read] == [[16], [4, 8], [8, 16]]
    wrong = held.given[0].clone()
    wrong.view(torch.int32)[2, 5] ^= 1 << 14
    told = measure(held, [wrong], {"threads": 1})
    assert told["elements"] == [2 * 16 + 5]
    assert told["max_ulp"] == 1 << 14
    assert told["repeats"] is True
    assert told["ratio"] > 4
    right = measure(held, [held.given[0].clone()], {"threads": 1})
    assert right == {}


def test_a_weight_that_is_read_transposed_has_its_own_elements() -> None:
    weight = torch.arange(12.0).reshape(3, 4)
    other = weight.clone()
    other[2, 1] += 1
    told = distance(*(in_memory_order(each.t().clone()) for each in (weight, other)))
    assert told["elements"] == [2 * 4 + 1]


def test_another_thread_count_explains_its_bits_exactly() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(64, 2048), torch.randn(8, 2048)
    recorder = Recorder(lambda: (), lambda: (), hold=0)
    recorder.start()
    x @ weight.t()
    recorder.stop()
    torch.set_num_threads(2)
    other = x @ weight.t()
    torch.set_num_threads(1)
    held = recorder.held
    assert held is not None
    if torch.equal(held.given[0], other):
        pytest.skip("two threads give the bits of one here")
    told = measure(held, [other], {"threads": 2})
    assert (told["repeats"], told["explained"]) == (True, True)
    assert told["ratio"] < 1.4
    assert told["relative"] <= told["band"]


def test_dropout_repeats_from_its_random_state() -> None:
    events = _step().events
    number = next(at for at, each in enumerate(events) if each.draws)
    held = _step(hold=number).held
    assert held is not None
    other = [1 - tensor for tensor in held.given]
    assert measure(held, other, {})["repeats"] is True


def test_distance_of_bf16_and_nan() -> None:
    one = torch.tensor([1.0, 2.0, float("nan")], dtype=torch.bfloat16)
    other = torch.tensor([1.0078125, 2.0, float("nan")], dtype=torch.bfloat16)
    told = distance(one, other)
    assert (told["num_differing"], told["elements"], told["max_ulp"]) == (1, [0], 1)
