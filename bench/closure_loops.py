"""Small training runs in the closure form, and what hits them."""

from __future__ import annotations

import ctypes
import hashlib
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import everybit
from everybit.drill.gpt import GPT, GPTConfig
from everybit.inject import ComputedCampaign

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.core.verdict import Verdict

    Hit = Callable[["Loop", str], None]

#: What lies in memory, and at which point of a step it is hit.
MEMORY = [
    ("weight", "between"),
    ("weight", "forward"),
    ("weight", "backward"),
    ("weight", "updated"),
    ("moment", "between"),
    ("moment", "backward"),
    ("moment", "updated"),
    ("buffer", "between"),
    ("buffer", "forward"),
    ("buffer", "updated"),
    ("gradient", "backward"),
    ("gradient", "clipped"),
]


class CNN(nn.Module):
    """Convolutions, batch norm, dropout: buffers that every call writes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.conv1(x)))
        x = F.relu(self.conv2(x)).mean((2, 3))
        return F.cross_entropy(self.head(self.drop(x)), y)


def gpt() -> tuple[nn.Module, Any]:
    model = GPT(GPTConfig(layers=2, width=32, heads=2, context=8, vocabulary=64))

    def batch(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.randint(0, 64, (4, 9), generator=generator)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    return model, batch


def cnn() -> tuple[nn.Module, Any]:
    def batch(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(6, 1, 10, 10, generator=generator)
        return x, torch.randint(0, 5, (6,), generator=generator)

    return CNN(), batch


@dataclass
class Loop:
    """A training run, as anybody would write it around `guard.step`.

    Attributes:
        model: The model.
        batch: Makes a batch.
        amp: Half precision under a GradScaler.
        accumulate: Micro-batches a step.
        hit: Called at each point of a step with its name: where faults are planted, once.
    """

    model: nn.Module
    batch: Any
    amp: bool = False
    accumulate: int = 1
    steps: int = 6
    hit: Hit | None = None
    root: Any = None
    losses: list[Any] = field(default_factory=list)
    at: int = -1

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 10)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, enabled=self.amp)
        self.root = self.root or self.model

    def point(self, name: str) -> None:
        if self.hit is not None:
            self.hit(self, name)

    def step(self, *batches: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        self.optimizer.zero_grad()
        total = torch.zeros(())
        for x, y in batches:
            with torch.autocast("cpu", torch.float16, enabled=self.amp):
                loss = self.root(x, y)
            self.point("forward")
            self.scaler.scale(loss / len(batches)).backward()
            total += loss.detach()
        self.point("backward")
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.point("clipped")
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.point("updated")
        return total

    def run(self, call: Callable[..., torch.Tensor]) -> None:
        generator = torch.Generator().manual_seed(3)
        for step in range(self.steps):
            self.at = step
            batches = [self.batch(generator) for _ in range(self.accumulate)]
            self.point("between")
            self.losses.append(call(self.step, *batches).tolist())
        self.point("end")

    def bits(self) -> Any:
        state = [t.detach().clone() for t in self.model.state_dict().values()]
        for parameter in self.model.parameters():
            state += [t.clone() for t in self.optimizer.state[parameter].values()]
        state.append(torch.get_rng_state())
        digest = hashlib.sha256(b"".join(t.numpy().tobytes() for t in state)).hexdigest()
        return digest, self.losses


def build(make: Callable[[], tuple[nn.Module, Any]], **options: Any) -> Loop:
    torch.manual_seed(0)
    model, batch = make()
    return Loop(model, batch, **options)


def bare(make: Callable[[], tuple[nn.Module, Any]], **options: Any) -> Any:
    loop = build(make, **options)
    loop.run(lambda fn, *args: fn(*args))
    return loop.bits()


@dataclass
class Guarded:
    """How a watched run ended."""

    bits: Any
    verdict: Verdict
    hits: list[Any]

    @property
    def findings(self) -> list[Finding]:
        return list(self.verdict.findings)


def guarded(
    make: Callable[[], tuple[nn.Module, Any]],
    run: Path,
    *,
    faults: Any = (),
    hit: Hit | None = None,
    loop: dict[str, Any] | None = None,
    **settings: Any,
) -> Guarded:
    trained = build(make, hit=hit, **(loop or {}))
    settings = {"replay_every": 1, "on_finding": "rewind", "incident_mb": 0} | settings
    with everybit.Guard(trained.model, trained.optimizer, run=run, **settings) as guard:
        campaign = (
            ComputedCampaign(
                faults, trained.model, trained.optimizer, count=lambda: int(guard.step)
            )
            if faults
            else nullcontext()
        )
        with campaign:
            trained.run(guard.step)
    hits = list(campaign.hits) if isinstance(campaign, ComputedCampaign) else []
    return Guarded(trained.bits(), guard.verdict, hits)


def flip(tensor: torch.Tensor, element: int, bit: int) -> None:
    """Flip a bit past torch, as a stray write does."""
    size = tensor.element_size()
    at = tensor.data_ptr() + element * size + bit // 8
    ctypes.memset(at, ctypes.string_at(at, 1)[0] ^ (1 << bit % 8), 1)


def target(loop: Loop, kind: str, rng: random.Random) -> tuple[str, torch.Tensor, str | None]:
    """Return the name, the tensor, and the name of the optimizer state."""
    named = dict(loop.model.named_parameters())
    key = rng.choice(sorted(named))
    if kind == "buffer":
        buffers = dict(loop.model.named_buffers())
        key = rng.choice(sorted(buffers))
        return key, buffers[key], None
    if kind == "moment":
        slot = rng.choice(["exp_avg", "exp_avg_sq"])
        return key, loop.optimizer.state[named[key]][slot], slot
    if kind == "gradient":
        gradient = named[key].grad
        assert gradient is not None
        return key, gradient, None
    return key, named[key].detach(), None
