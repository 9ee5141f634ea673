"""Tracing by module: what is on record of modules of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.trace.traced import gradients, outputs, skipped, trace
from torch import nn
from torch.utils.checkpoint import checkpoint

from everybit.core.link import Link
from everybit.probe.digest import memory_words

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.observation import StepRecord

X = torch.linspace(-1, 1, 32).reshape(4, 8)


def total(model: nn.Module) -> torch.Tensor:
    return model(X).pow(2).mean()


class Calls(nn.Module):
    """A model whose forward is given."""

    def __init__(self, forward: Any, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self._forward = forward

    def forward(self, x: Any) -> Any:
        return self._forward(self, x)


def test_outputs_and_gradients_in_causal_order(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    with torch.no_grad():
        hidden = model[1](model[0](X))
    (record,), _ = trace(tmp_path, model, total)
    assert list(outputs(record)) == ["0()", "1()", "2()", "()"]
    assert list(gradients(record)) == ["grad ()", "grad 2()", "grad 1()", "grad 0()"]
    assert outputs(record)["1()"] == memory_words([hidden])[0]
    links = [table.link for table in record.tables]
    assert links == sorted(links, key=lambda link: link.position)
    both = [table for table in record.tables if table.link is Link.GRAD]
    assert [table.names[0] for table in both] == ["grad ()", "0.weight"]


def test_gradients_are_those_of_autograd(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    hidden = model[0](X)
    loss = model[2](model[1](hidden)).pow(2).mean()
    (wanted,) = torch.autograd.grad(loss, hidden)
    (record,), _ = trace(tmp_path, model, total)
    assert gradients(record)["grad 0()"] == memory_words([wanted])[0]


def test_in_place_modules(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    before = model[0](X).detach()
    after = before.relu()
    (record,), _ = trace(tmp_path, model, total)
    told = outputs(record)
    assert [told["0()"], told["1()"]] == memory_words([before, after])
    assert {"grad 0()", "grad 1()"} <= gradients(record).keys()
    assert gradients(record)["grad 0()"] != gradients(record)["grad 1()"]


def test_the_same_tensor_is_read_once(tmp_path: Path) -> None:
    inner = nn.Sequential(nn.Sequential(nn.Linear(8, 2)))
    (record,), guard = trace(tmp_path, nn.Sequential(inner), total)
    told = outputs(record)
    assert list(told) == ["0.0.0()", "0.0()", "0()", "()"]
    assert len(set(told.values())) == 1
    assert list(gradients(record)) == ["grad ()", "grad 0()", "grad 0.0()", "grad 0.0.0()"]
    words = guard._checks.trace._tracer.words
    assert (words.num_read, words.num_known) == (2, 3)


def test_what_was_written_to_since_is_read_again(tmp_path: Path) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        y.mul_(2)
        return self.b(y)

    model = Calls(forward, a=nn.Linear(8, 8), b=nn.Identity())
    (record,), _ = trace(tmp_path, model, total)
    assert outputs(record)["a()"] != outputs(record)["b()"] == outputs(record)["()"]


@dataclass
class Answer:
    logits: torch.Tensor
    hidden: Any
    note: str = "seen"


def test_nests_of_outputs(tmp_path: Path) -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        y = self.fc(x)
        self.nothing(x)
        return Answer(y, {"a": (y * 2, None), "n": 3})

    model = Calls(forward, fc=nn.Linear(8, 2), nothing=Calls(lambda *_: None))
    (record,), _ = trace(tmp_path, model, lambda m: (m(X).logits + m.fc(X)).sum())
    assert list(outputs(record)) == ["fc()", "().logits", "().hidden.a.0", "fc()#1"]
    assert list(gradients(record)) == ["grad fc()#1", "grad ().logits", "grad fc()"]


def test_views_tuples_and_lstm(tmp_path: Path) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        y, (h, _) = self.lstm(x.reshape(4, 2, 4))
        (left, right) = self.halves(y)
        return left + right + h[-1].unsqueeze(1)

    halves = Calls(lambda _, y: y.chunk(2, dim=1))
    model = Calls(forward, lstm=nn.LSTM(4, 3, batch_first=True), halves=halves)
    (record,), _ = trace(tmp_path, model, total)
    told = outputs(record)
    assert list(told) == ["lstm().0", "lstm().1.0", "lstm().1.1", "halves().0", "halves().1", "()"]
    assert {"grad lstm().0", "grad lstm().1.0", "grad halves().1"} <= gradients(record).keys()
    assert "grad lstm().1.1" not in gradients(record)  # Nothing was computed from it.


def test_many_calls_and_shared_modules(tmp_path: Path) -> None:
    shared = nn.Linear(8, 8)

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = self.one(x)
        return self.other(x)

    (record,), _ = trace(tmp_path, Calls(forward, one=shared, other=shared), total)
    assert list(outputs(record)) == ["one()", "one()#1", "one()#2", "one()#3", "()"]
    wanted = ["grad ()", "grad one()#3", "grad one()#2", "grad one()#1", "grad one()"]
    assert list(gradients(record)) == wanted


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputation_is_not_recorded_twice(reentrant: bool, tmp_path: Path) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return checkpoint(self.body, x, use_reentrant=reentrant)

    def model(forward: Any) -> nn.Module:
        torch.manual_seed(0)
        body = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.5))
        return Calls(forward, first=nn.Linear(8, 8), body=body)

    torch.manual_seed(1)
    (plain,), _ = trace(tmp_path / "plain", model(lambda self, x: self.body(self.first(x))), total)
    torch.manual_seed(1)
    (record,), _ = trace(tmp_path / "again", model(forward), total)
    assert list(outputs(record)) == list(outputs(plain))
    assert outputs(record) == outputs(plain)
    assert gradients(record) == gradients(plain)


def test_without_gradients(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen = nn.Linear(8, 8).requires_grad_(False)
            self.head = nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                x = self.frozen(x)
            return self.head(x)

    teacher = nn.Sequential(nn.Linear(8, 2))

    def loss(model: nn.Module) -> torch.Tensor:
        with torch.no_grad():
            target = teacher(X)
            model(X)  # Evaluation between updates is no part of the step.
        return (model(X) - target).pow(2).mean()

    (record,), _ = trace(tmp_path, Model(), loss, watched=(teacher,))
    assert list(outputs(record)) == [
        "Sequential:0()", "Sequential:()", "frozen()", "head()", "()"
    ]  # fmt: skip
    assert list(gradients(record)) == ["grad ()", "grad head()"]


def test_two_backward_passes_and_double_backward(tmp_path: Path) -> None:
    def loss(model: nn.Module) -> torch.Tensor:
        y = model(X)
        y.sum().backward(retain_graph=True)
        inputs = X.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(inputs).tanh().sum(), inputs, create_graph=True)
        return y.pow(2).sum() + slope.pow(2).sum()

    (record,), _ = trace(tmp_path, nn.Sequential(nn.Linear(8, 2)), loss)
    assert list(outputs(record)) == ["0()", "()", "0()#1", "()#1"]
    told = gradients(record)
    assert {"grad ()", "grad ()~1", "grad ()#1", "grad ()#1~1"} <= told.keys()
    assert len(set(told.values())) >= 3


def test_transforms_are_left_out_and_said(tmp_path: Path) -> None:
    def loss(model: nn.Module) -> torch.Tensor:
        return torch.func.vmap(model)(X).pow(2).mean()

    (record,), guard = trace(tmp_path, nn.Sequential(nn.Linear(8, 2)), loss)
    assert not outputs(record)
    assert "within a transform of torch.func" in skipped(guard)


def test_compiled_models_are_seen_as_a_whole(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    try:
        (record,), guard = trace(tmp_path, compiled, total)  # type: ignore[arg-type]
    finally:
        torch.compiler.reset()
    assert list(outputs(record)) == ["()"]
    assert list(gradients(record)) == ["grad ()"]
    assert any("compiled" in why for why in skipped(guard))


def test_modules_that_come_later(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8))
    records: list[StepRecord] = []

    def loss(given: nn.Module) -> torch.Tensor:
        records.append(given)  # type: ignore[arg-type]
        if len(records) == 2:
            model.append(nn.Tanh())
        if len(records) == 3:
            model[0] = nn.Identity()
            model.append(nn.Linear(8, 1))
        return given(X).pow(2).sum() + sum(p.sum() * 0 for p in given.parameters())

    first, second, third = trace(tmp_path, model, loss, steps=3)[0]
    assert list(outputs(first)) == ["0()", "()"]
    assert list(outputs(second)) == ["0()", "1()", "()"]
    assert list(outputs(third)) == ["0()", "1()", "2()", "()"]


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    import copy
    import pickle

    model = nn.Sequential(nn.Linear(8, 2), nn.Tanh())
    seen: list[bytes] = []

    def loss(given: nn.Module) -> torch.Tensor:
        value = total(given)
        seen.append(pickle.dumps(given))
        assert "_compiled_call_impl" not in copy.deepcopy(given)[0].__dict__
        return value

    plain = pickle.dumps(model)
    trace(tmp_path, model, loss)
    assert b"everybit" not in seen[0]
    assert len(seen[0]) == len(plain)
    assert not any("_compiled_call_impl" in part.__dict__ for part in model.modules())
    assert not any(part._forward_hooks for part in model.modules())


def test_errors_of_the_model_stay_its_own(tmp_path: Path) -> None:
    calls: list[int] = []

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        calls.append(0)
        if len(calls) == 1:
            raise ValueError("its own")
        return x

    model = nn.Sequential(nn.Linear(8, 2), Calls(forward))

    def loss(given: nn.Module) -> torch.Tensor:
        with pytest.raises(ValueError, match="its own"):
            given(X)
        return total(given)

    (record,), _ = trace(tmp_path, model, loss)
    assert list(outputs(record)) == ["0()", "0()#1", "1()#1", "()#1"]


def test_only_checked_steps_are_traced(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 2))
    records, _ = trace(tmp_path, model, total, steps=5, every=2)
    assert [record.step for record in records] == [0, 2, 4]
    assert all(list(outputs(record)) == ["0()", "()"] for record in records)


def test_micro_batches(tmp_path: Path) -> None:
    def loss(model: nn.Module) -> torch.Tensor:
        total(model).backward()
        return total(model)

    (record,), _ = trace(tmp_path, nn.Sequential(nn.Linear(8, 2)), loss)
    assert list(outputs(record)) == ["0()", "()", "0()#1", "()#1"]
    assert list(gradients(record)) == ["grad ()", "grad 0()", "grad ()#1", "grad 0()#1"]
