"""Small training loops as people write them; each returns its losses and everything it trained.

Every loop takes `watch(*things)`, which gives a context manager to train in.
"""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    Watch = Callable[..., AbstractContextManager[Any]]
    Outcome = tuple[list[float], list[torch.Tensor]]

STEPS = 6


def seed(value: int = 0) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 300), nn.Linear(300, 4))


def everything(*things: Any) -> list[torch.Tensor]:
    """All tensors of modules' and optimizers' state, cloned."""
    found: list[torch.Tensor] = []

    def walk(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found.append(value.detach().clone())
        elif isinstance(value, dict):
            for item in value.values():
                walk(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                walk(item)

    for thing in things:
        walk(thing.state_dict())
    return found


def plain(watch: Watch, *, kind: Any = torch.optim.AdamW, **options: Any) -> Outcome:
    seed()
    model = mlp()
    optimizer = kind(model.parameters(), **options)
    losses = []
    with watch(model, optimizer):
        for _ in range(STEPS):
            x, y = torch.randn(8, 16), torch.randint(4, (8,))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, everything(model, optimizer)


def fused(watch: Watch) -> Outcome:
    return plain(watch, fused=True)


def foreach(watch: Watch) -> Outcome:
    return plain(watch, foreach=True)


def for_loop(watch: Watch) -> Outcome:
    return plain(watch, foreach=False)


def sgd_momentum(watch: Watch) -> Outcome:
    return plain(watch, kind=torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True)


def cnn(watch: Watch) -> Outcome:
    seed()
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.LazyLinear(5),
    )
    model(torch.randn(2, 3, 8, 8))
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    with watch(model, optimizer):
        for step in range(STEPS):
            x = torch.randn(4, 3, 8, 8).to(memory_format=torch.channels_last)
            optimizer.zero_grad(set_to_none=False)
            loss = F.cross_entropy(model(x), torch.randint(5, (4,)))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            if step == 3:
                model.eval()
                with torch.no_grad():
                    losses.append(model(x).sum().item())
                model.train()
    return losses, everything(model, optimizer)


def clamp_through_data(watch: Watch) -> Outcome:
    seed()
    model = mlp()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    losses = []
    with watch(model, optimizer):
        kept = [p.data for p in model.parameters()]
        for step in range(STEPS):
            loss = model(torch.randn(8, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for p in model.parameters():
                p.data.clamp_(-0.05, 0.05)
            if step == 4:
                # An alias taken long ago writes without the getter being asked again.
                for alias in kept:
                    alias.mul_(0.5)
            losses.append(loss.item())
    return losses, everything(model, optimizer)


def ema_and_target(watch: Watch) -> Outcome:
    seed()
    model = mlp()
    target = copy.deepcopy(model)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    with watch(model, target, optimizer):
        for step in range(STEPS):
            x = torch.randn(8, 16)
            with torch.no_grad():
                goal = target(x)
            loss = F.mse_loss(model(x), goal + 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            averaged.update_parameters(model)
            for p, q in zip(model.parameters(), target.parameters(), strict=True):
                q.data.copy_(q.data * 0.9 + p.data * 0.1)
            if step == 3:
                target.load_state_dict(model.state_dict())
            losses.append(loss.item())
    return losses, everything(model, target, averaged, optimizer)


def two_optimizers(watch: Watch) -> Outcome:
    seed()
    generator = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    critic = nn.Sequential(nn.Linear(16, 64), nn.LeakyReLU(), nn.Linear(64, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3)
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3, fused=True)
    losses = []
    with watch(generator, critic, of_generator, of_critic):
        for _ in range(STEPS):
            real = torch.randn(8, 16)
            fake = generator(torch.randn(8, 8))
            of_critic.zero_grad()
            loss = critic(fake.detach()).mean() - critic(real).mean()
            loss.backward()
            of_critic.step()
            of_generator.zero_grad()
            adversarial = -critic(fake).mean()
            adversarial.backward()
            of_generator.step()
            losses += [loss.item(), adversarial.item()]
    return losses, everything(generator, critic, of_generator, of_critic)


def accumulation(watch: Watch) -> Outcome:
    seed()
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    losses = []
    with watch(model, optimizer):
        for micro in range(3 * STEPS):
            loss = model(torch.randn(4, 16)).square().mean() / 3
            loss.backward()
            losses.append(loss.item())
            if micro % 3 == 2:
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
    return losses, everything(model, optimizer)


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32))
        self.decoder = nn.Sequential(
            nn.Linear(32, 16), nn.InstanceNorm1d(1, track_running_stats=True)
        )
        self.tied = nn.Linear(16, 16)
        self.tied.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.decoder[0](self.encoder(x))
        return self.tied(self.decoder[1](hidden.unsqueeze(1)).squeeze(1))


def calls_past_the_root(watch: Watch) -> Outcome:
    seed()
    model = Parts()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    with watch(model, optimizer):
        for step in range(STEPS):
            x = torch.randn(8, 16)
            hidden = model.encoder(x)
            loss = hidden.square().mean() + model(x).square().mean()
            if step % 2:
                loss = loss + model(x * 2).square().mean()
                model.encoder(x * 3)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.decoder[1](torch.randn(8, 1, 16))
            losses.append(loss.item())
    return losses, everything(model, optimizer)


def closure(watch: Watch) -> Outcome:
    seed()
    model = nn.Linear(16, 300)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    x, y = torch.randn(32, 16), torch.randn(32, 300)

    def evaluate() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    with watch(model, optimizer):
        losses = [float(optimizer.step(evaluate).detach()) for _ in range(STEPS)]
    return losses, everything(model)


def amp(watch: Watch, **options: Any) -> Outcome:
    seed()
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=3)
    losses = []
    with watch(model, optimizer):
        for _ in range(4 * STEPS):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = model(torch.randn(8, 16)).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses += [loss.item(), scaler.get_scale()]
    return losses, everything(model, optimizer)


def amp_fused(watch: Watch) -> Outcome:
    return amp(watch, fused=True)


def half(watch: Watch) -> Outcome:
    seed()
    model = mlp().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    with watch(model, optimizer):
        for step in range(STEPS):
            loss = model(torch.randn(8, 16).bfloat16()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step == 3:
                vector = nn.utils.parameters_to_vector(model.parameters())
                nn.utils.vector_to_parameters(vector * 0.5, model.parameters())
            if step == 4:
                model.float().bfloat16()
    return losses, everything(model, optimizer)


def resumed(watch: Watch) -> Outcome:
    seed()
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    saved: dict[str, Any] = {}
    losses = []
    with watch(model, optimizer):
        for step in range(STEPS):
            loss = model(torch.randn(8, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step == 1:
                saved = copy.deepcopy(
                    {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                )
            if step == 3:
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])
            if step == 4:
                model.load_state_dict(saved["model"], assign=True)
                optimizer.param_groups[0]["params"] = list(model.parameters())
    return losses, everything(model)


def late_comers(watch: Watch) -> Outcome:
    seed()
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    with watch(model, optimizer):
        for step in range(STEPS):
            if step == 2:
                model.append(nn.Linear(4, 4))
                optimizer.add_param_group({"params": model[-1].parameters(), "lr": 1e-2})
            loss = model(torch.randn(8, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, everything(model, optimizer)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.norm = nn.BatchNorm1d(32)
        self.last = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.dropout(self.norm(self.first(x)).relu(), 0.2, self.training)
        return self.last(hidden)


def compiled(watch: Watch) -> Outcome:
    seed()
    model = Small()
    fast = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(fast.parameters())
    return _train_compiled(watch, fast, optimizer)


def compiled_late(watch: Watch) -> Outcome:
    seed()
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters())
    return _train_compiled(watch, torch.compile(model, backend="aot_eager"), optimizer)


def compiled_in_place(watch: Watch) -> Outcome:
    seed()
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters())
    model.compile(backend="aot_eager", fullgraph=True)
    return _train_compiled(watch, model, optimizer)


def _train_compiled(watch: Watch, model: Any, optimizer: Any) -> Outcome:
    losses = []
    with watch(model, optimizer):
        for _ in range(STEPS):
            loss = model(torch.randn(8, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, everything(model, optimizer)


def functional(watch: Watch) -> Outcome:
    seed()
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    with watch(model, optimizer):
        for _ in range(STEPS):
            x = torch.randn(8, 16)
            parameters = {k: v.detach() * 0.5 for k, v in model.named_parameters()}
            other = torch.func.functional_call(model, parameters, (x,))
            per_sample = torch.func.vmap(model)(x)
            loss = (model(x) - other.detach()).square().mean() + per_sample.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, everything(model, optimizer)


LOOPS = {
    f.__name__: f
    for f in (
        plain, fused, foreach, for_loop, sgd_momentum, cnn, clamp_through_data, ema_and_target,
        two_optimizers, accumulation, calls_past_the_root, closure, amp, amp_fused, half, resumed,
        late_comers, compiled, compiled_late, compiled_in_place, functional,
    )
}  # fmt: skip
