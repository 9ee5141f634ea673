"""Training loops that a replay must leave alone; each returns its losses and what it trained."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch._dynamo.utils
from tests.guard.loops import STEPS, everything, mlp, seed
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from tests.guard.loops import Outcome, Watch


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.after = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (part.view(*part.shape[:2], 2, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.projection(mixed.transpose(1, 2).reshape(x.shape)))
        return x + self.dropout(self.mlp(self.after(x)))


class GPT(nn.Module):
    """Tied weights, dropout, attention; blocks are checkpointed where asked."""

    def __init__(self, *, checkpointed: bool | None = None, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.checkpointed = checkpointed

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            if self.checkpointed is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.checkpointed)
        return self.head(self.norm(x))


def next_token_loss(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def _trained(model: nn.Module, watch: Watch, loss_of: Any, **options: Any) -> Outcome:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    kept: list[torch.Tensor] = []
    with watch(model, optimizer):
        for _ in range(STEPS):
            optimizer.zero_grad(**options)
            loss = loss_of()
            loss.backward()
            kept += [p.grad.clone() for p in model.parameters() if p.grad is not None]
            optimizer.step()
            losses.append(loss.item())
            losses.append(float(torch.rand(()) + random.random() + np.random.rand()))
    return losses, [*everything(model, optimizer), *kept]


def gpt(watch: Watch, **options: Any) -> Outcome:
    seed()
    model = GPT(**options)
    return _trained(model, watch, lambda: next_token_loss(model, torch.randint(50, (4, 9))))


def gpt_checkpointed(watch: Watch) -> Outcome:
    return gpt(watch, checkpointed=False)


def gpt_checkpointed_reentrant(watch: Watch) -> Outcome:
    return gpt(watch, checkpointed=True)


def gpt_checkpointed_bfloat16(watch: Watch) -> Outcome:
    # Recomputed in backward, which runs outside of autocast: it brings its own.
    return gpt_bfloat16(watch, checkpointed=False)


def gpt_bfloat16(watch: Watch, **options: Any) -> Outcome:
    seed()
    model = GPT(**options)

    def loss_of() -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            # Two calls share the weights that autocast has cast.
            return sum(next_token_loss(model, torch.randint(50, (4, 9))) for _ in range(2))

    return _trained(model, watch, loss_of)


def decay_outside(watch: Watch) -> Outcome:
    seed()
    model = mlp()

    def loss_of() -> torch.Tensor:
        squares = sum(p.square().sum() for p in model.parameters())
        return model(torch.randn(8, 16)).square().mean() + 1e-3 * squares

    return _trained(model, watch, loss_of, set_to_none=False)


class WithAuxiliary(nn.Module):
    """Leaves an auxiliary loss, a counter and a list behind; returns what it also uses itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.gate = nn.Linear(32, 4)
        self.last = nn.Linear(32, 4)
        self.calls = 0
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        self.calls += 1
        self.seen.append(self.calls)
        hidden = self.first(x).relu_()
        self.auxiliary = self.gate(hidden).softmax(-1).square().mean()
        noise = random.random() + np.random.rand()
        return {"hidden": hidden, "all": [self.last(hidden) * noise, (x, None)]}


def auxiliary_loss(watch: Watch) -> Outcome:
    seed()
    model = WithAuxiliary()

    def loss_of() -> torch.Tensor:
        found = model(torch.randn(8, 16))
        hidden = found["hidden"].abs().mean()
        return found["all"][0].square().mean() + 0.1 * model.auxiliary + 0.01 * hidden

    losses, tensors = _trained(model, watch, loss_of)
    return [*losses, model.calls, *model.seen], tensors


@dataclass
class Answer:
    values: torch.Tensor
    state: tuple[torch.Tensor, torch.Tensor]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, num_layers=2, dropout=0.2)
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, state: Any = None) -> Answer:
        values, state = self.lstm(x, state)
        return Answer(self.last(values), state)


def lstm(watch: Watch) -> Outcome:
    """The state of the first call goes into the second, with its graph."""
    seed()
    model = Recurrent()

    def loss_of() -> torch.Tensor:
        first = model(torch.randn(5, 3, 8))
        second = model(torch.randn(5, 3, 8), first.state)
        return first.values.square().mean() + second.values.square().mean()

    return _trained(model, watch, loss_of)


def two_passes(watch: Watch) -> Outcome:
    """Two backward passes through one call; a gradient wanted of the input, hooks on a weight."""
    seed()
    model = mlp()
    heard: list[float] = []
    model[0].weight.register_hook(lambda gradient: heard.append(gradient.sum().item()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with watch(model, optimizer):
        for _ in range(STEPS):
            x = torch.randn(8, 16, requires_grad=True)
            optimizer.zero_grad()
            outputs = model(x)
            outputs[:, 0].square().mean().backward(retain_graph=True)
            outputs[:, 1:].abs().mean().backward()
            losses += [x.grad.sum().item(), len(heard), heard[-1]]
            optimizer.step()
    return losses, everything(model, optimizer)


def penalty(watch: Watch) -> Outcome:
    """A gradient penalty: the first pass records a graph."""
    seed()
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))

    def loss_of() -> torch.Tensor:
        x = torch.randn(8, 16, requires_grad=True)
        outputs = model(x)
        (slope,) = torch.autograd.grad(outputs.sum(), x, create_graph=True)
        return outputs.mean() + (slope.norm(dim=1) - 1).square().mean()

    return _trained(model, watch, loss_of)


def written_inputs(watch: Watch) -> Outcome:
    """Inputs that the call writes into, and a buffer that is filled anew before the backward."""
    seed()
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(16, 4))
    batch = np.zeros((8, 16), np.float32)

    def loss_of() -> torch.Tensor:
        x = torch.randn(8, 16)
        return model(x).square().mean() + x.mean()

    losses, tensors = _trained(model, watch, loss_of)
    other = nn.Sequential(nn.Tanh(), nn.Linear(16, 4))

    def reused() -> torch.Tensor:
        batch[:] = np.random.rand(8, 16)
        loss = other(torch.from_numpy(batch)).square().mean()
        batch[:] = 0.5
        return loss

    more, others = _trained(other, watch, reused)
    return losses + more, tensors + others


class CompiledWithin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.last = nn.Linear(32, 4)
        self.block = torch.compile(self.inner, backend="aot_eager")

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x).tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.block(x))


def compiled_within(watch: Watch) -> Outcome:
    """A function within the forward is compiled when it is first called."""
    seed()
    model = CompiledWithin()
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    losses, tensors = _trained(model, watch, lambda: model(torch.randn(8, 16)).square().mean())
    return [*losses, torch._dynamo.utils.counters["stats"]["unique_graphs"] - before], tensors


REPLAYED = {
    f.__name__: f
    for f in (
        gpt, gpt_checkpointed, gpt_checkpointed_reentrant, gpt_bfloat16, decay_outside,
        gpt_checkpointed_bfloat16,
        auxiliary_loss, lstm, two_passes, penalty, written_inputs, compiled_within,
    )
}  # fmt: skip
