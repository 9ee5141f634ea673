"""Kinds of models and layers that a replay must repeat: nothing differs, nothing is changed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.loops import everything, seed
from tests.guard.test_same_numbers import same
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations

import everybit

if TYPE_CHECKING:
    from pathlib import Path


class Normed(nn.Module):
    """Weight and spectral norm in both forms: hooks and buffers of torch's own."""

    def __init__(self) -> None:
        super().__init__()
        self.a = parametrizations.weight_norm(nn.Linear(8, 16))
        self.b = parametrizations.spectral_norm(nn.Linear(16, 16))
        self.c = nn.utils.spectral_norm(nn.Linear(16, 4))
        self.norm = nn.GroupNorm(2, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(F.selu(self.norm(self.b(torch.tanh(self.a(x))))))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 8, bidirectional=True, batch_first=True)
        self.last = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> dict[str, torch.Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        output, state = self.gru(packed)
        output, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return {"output": self.last(output), "state": state}


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < 1)


class StraightThrough(nn.Module):
    """A function of its own, and a buffer that is exchanged at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 2)
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = Sign.apply(self.first(x))
        self.average = self.average * 0.9 + hidden.detach().mean(0) * 0.1
        return self.last(hidden - self.average)


class Experts(nn.Module):
    """Which parts are called depends on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(-1)
        chosen = weights.argmax(-1)
        output = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            if mine.any():
                output[mine] = expert(x[mine]) * weights[mine, number : number + 1]
        return output


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 8, sparse=True)
        self.bag = nn.EmbeddingBag(100, 8, mode="sum")

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.embedding(rows).sum(1) * self.bag(rows)


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


KINDS: dict[str, tuple[Any, Any]] = {
    "normed": (Normed, lambda model: model(torch.randn(8, 8))),
    "packed": (Packed, lambda model: model(torch.randn(5, 7, 4), torch.randint(1, 8, (5,)))),
    "own function": (StraightThrough, lambda model: model(torch.randn(16, 8))),
    "experts": (Experts, lambda model: model(torch.randn(64, 8))),
    "sparse": (Sparse, lambda model: model(torch.randint(100, (8, 5)))),
    "encoder": (encoder, lambda model: model(torch.randn(4, 6, 16))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cast", [False, True])
def test_repeats(kind: str, cast: bool, tmp_path: Path) -> None:
    if cast and kind in ("packed", "experts"):
        pytest.skip("has no bfloat16 form")
    build, call = KINDS[kind]

    def train(watch: Any) -> tuple[list[float], list[torch.Tensor]]:
        seed()
        model = build()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        losses = []
        with watch(model, optimizer):
            for _ in range(4):
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                    output = call(model)
                outputs = output.values() if isinstance(output, dict) else [output]
                loss = sum(each.float().square().mean() for each in outputs)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, everything(model)

    losses, tensors = train(lambda *_: nullcontext())
    guards: list[everybit.Guard] = []

    def watch(*things: Any) -> everybit.Guard:
        options: dict[str, Any] = {"replay_every": 1, "on_finding": "record"}
        guards.append(everybit.Guard(*things, run=tmp_path / "run", **options))
        return guards[-1]

    guarded_losses, guarded_tensors = train(watch)
    assert guarded_losses == losses
    assert same(guarded_tensors, tensors)
    (guard,) = guards
    assert guard.findings == ()
    checked = {each.what: each.count for each in guard.verdict.coverage.checked}
    assert checked["calls of a model computed again"] == 4
    assert not any("again" in each.what for each in guard.verdict.coverage.skipped)
