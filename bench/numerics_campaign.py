"""Numerics under test: clean runs that must stay quiet, planted faults that must be named.

    python -m bench.numerics_campaign [--steps 160] [--clean 40] [--only NAME]

Clean runs: six kinds of model, three seeds, fp32, bf16 autocast and fp16 autocast with a
GradScaler, under warm-up, schedules, dropout, label noise, clipping and accumulation. No finding
of any severity is allowed. Planted faults: each has to be found at its step, by its cause's rule.
Writes `bench/results/numerics.json`.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from bench.kept import commit
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import lr_scheduler

import everybit
from everybit.drill.gpt import GPT, GPTConfig
from everybit.drill.text import Batches, standard_library_bytes

RESULTS = Path(__file__).resolve().parent / "results" / "numerics.json"
AT = 80  # The step at which faults are planted.
DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Image(nn.Module):
    """A CNN with batch norm."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.drop(self.body(x).mean((2, 3))))


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self):
        super().__init__()
        self.cut = nn.Conv2d(3, 32, 4, stride=4)
        self.place = nn.Parameter(torch.zeros(1, 16, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        tokens = self.cut(x).flatten(2).transpose(1, 2) + self.place
        return self.head(self.blocks(tokens).mean(1))


class Sequence(nn.Module):
    """An LSTM that predicts the next byte."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, 24)
        self.cells = nn.LSTM(24, 48, batch_first=True)
        self.head = nn.Linear(48, 256)

    def forward(self, tokens):
        with torch.autocast("cpu", enabled=False):  # oneDNN has no LSTM in half precision.
            hidden = self.cells(self.embed(tokens).float())[0]
        return self.head(hidden)


def perceptron():
    return nn.Sequential(
        nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )


_TEXT = standard_library_bytes(1 << 18)


@dataclass
class Loop:
    """A training loop; faults change it through its hooks.

    Attributes:
        batch: Makes the inputs and targets of a step.
        score: Gives the loss of a model on them.
        hooks: `batch`, `loss`, `backward` and `step`: called at those places of a step.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: object
    score: object
    schedule: object = None
    dtype: torch.dtype | None = None
    clip: float = 0.0
    accumulate: int = 1
    use_scaler: bool = True
    hooks: dict = field(default_factory=dict)
    scaler: object = None

    def __post_init__(self):
        enabled = self.dtype is torch.float16 and self.use_scaler
        self.scaler = torch.amp.GradScaler("cpu", enabled=enabled, growth_interval=50)

    @property
    def watched(self):
        return self.model, self.optimizer

    def call(self, name, step, value=None):
        hook = self.hooks.get(name)
        changed = hook(self, step, value) if hook else None
        return value if changed is None else changed

    def step(self, number):
        self.optimizer.zero_grad()
        for _ in range(self.accumulate):
            inputs, targets = self.call("batch", number, self.batch())
            autocast = torch.autocast("cpu", self.dtype, enabled=self.dtype is not None)
            with autocast:
                loss = self.score(self.model, inputs, targets) / self.accumulate
                loss = self.call("loss", number, loss)
            self.scaler.scale(loss).backward()
        self.call("backward", number)
        if self.clip:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.call("step", number)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.schedule:
            self.schedule.step()


class Adversaries:
    """A GAN on points of a ring."""

    def __init__(self, dtype):
        self.maker = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
        self.critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
        self.opts = [
            torch.optim.Adam(net.parameters(), 1e-3, betas=(0.5, 0.999))
            for net in (self.critic, self.maker)
        ]
        self.dtype = dtype
        enabled = dtype is torch.float16
        self.scalers = [torch.amp.GradScaler("cpu", enabled=enabled) for _ in self.opts]
        self.hooks = {}

    @property
    def watched(self):
        return self.maker, self.critic, *self.opts

    def step(self, number):
        angle = 6.28 * torch.rand(32, 1)
        real = torch.cat((angle.cos(), angle.sin()), 1)
        ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
        cross = F.binary_cross_entropy_with_logits
        for turn, optimizer in enumerate(self.opts):
            optimizer.zero_grad()
            with torch.autocast("cpu", self.dtype, enabled=self.dtype is not None):
                fake = self.maker(torch.randn(32, 8))
                if turn == 0:
                    judged = self.critic(fake.detach()).float()
                    loss = cross(self.critic(real).float(), ones) + cross(judged, zeros)
                else:
                    loss = cross(self.critic(fake).float(), ones)
            self.scalers[turn].scale(loss).backward()
            self.scalers[turn].step(optimizer)
            self.scalers[turn].update()


def _classify(model, inputs, targets):
    return F.cross_entropy(model(inputs).float(), targets, label_smoothing=0.05)


def _regress(model, inputs, targets):
    return F.mse_loss(model(inputs).float(), targets)


def _language(model, tokens, targets):
    return F.cross_entropy(model(tokens).float().flatten(0, 1), targets.flatten())


def _images(noise):
    means = torch.randn(10, 3, 1, 1)

    def batch():
        labels = torch.randint(10, (16,))
        images = means[labels] + torch.randn(16, 3, 16, 16)
        wrong = torch.rand(16) < noise
        return images, torch.where(wrong, torch.randint(10, (16,)), labels)

    return batch


def _numbers(noise):
    weights = torch.randn(8, 1)

    def batch():
        inputs = torch.randn(32, 8)
        return inputs, torch.sin(inputs @ weights) + noise * torch.randn(32, 1)

    return batch


def make_loop(kind, *, seed, dtype="fp32", variant=0, steps=160, **settings):
    """Build a loop: the kind of model, and one of several ways to train it."""
    torch.manual_seed(seed)
    chosen = DTYPES[dtype]
    if kind == "gan":
        return Adversaries(chosen)
    if kind == "gpt":
        model = GPT(GPTConfig(layers=2, width=32, heads=2, context=24, dropout=0.1))
        batches = Batches(_TEXT, batch=4, context=24, seed=seed)
        parts = (model, batches.next, lambda model, x, y: model(x, y))
    elif kind == "rnn":
        parts = (Sequence(), Batches(_TEXT, batch=4, context=24, seed=seed).next, _language)
    elif kind == "mlp":
        parts = (perceptron(), _numbers(0.3), _regress)
    else:
        model = Image() if kind == "cnn" else Patches()
        parts = (model, _images(0.1 * variant), _classify)
    model, batch, score = parts
    groups = [*model.parameters()]
    optimizers = (
        lambda: torch.optim.AdamW(groups, 3e-3, weight_decay=0.05),
        lambda: torch.optim.SGD(groups, 0.05, momentum=0.9, nesterov=True, weight_decay=1e-4),
        lambda: torch.optim.Adam(groups, 2e-3, amsgrad=True),
        lambda: torch.optim.RMSprop(groups, 1e-3),
        lambda: torch.optim.AdamW(groups, 2e-3, betas=(0.9, 0.95), fused=True),
    )
    optimizer = settings.pop("optimizer", None)
    optimizer = optimizer(model) if optimizer else optimizers[variant % len(optimizers)]()
    schedules = (
        lambda: lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 20)),
        lambda: lr_scheduler.OneCycleLR(
            optimizer, optimizer.param_groups[0]["lr"], total_steps=steps + 1
        ),
        lambda: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 40),
        lambda: lr_scheduler.StepLR(optimizer, 50, gamma=0.1),
        lambda: None,
    )
    schedule = settings.pop("schedule", schedules[variant % len(schedules)])()
    return Loop(
        model=model,
        optimizer=optimizer,
        batch=batch,
        score=score,
        schedule=schedule,
        dtype=chosen,
        clip=settings.pop("clip", 1.0 if variant in (0, 3) else 0.0),
        accumulate=settings.pop("accumulate", 2 if variant == 2 else 1),
        **settings,
    )


def watch(loop, steps, folder):
    """Train a loop under a Guard; returns the verdict."""
    with everybit.Guard(*loop.watched, run=folder, on_finding="record") as guard:
        for number in range(steps):
            loop.step(number)
    return guard.verdict


def clean_runs():
    """Return `(kind, seed, dtype, variant)` of the clean runs, 48 of them."""
    runs = []
    for index, kind in enumerate(("gpt", "cnn", "rnn", "mlp", "gan", "vit")):
        for number in range(8):
            dtype = ("fp32", "bf16", "fp16")[(number + index) % 3]
            runs.append((kind, 100 + number, dtype, (number + index) % 5))
    return runs


# Faults -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A planted fault and what has to be said of it.

    Attributes:
        parameter: What has to be named, where it can be.
        steps: First and last step that may be named.
        run_on: Steps to go on for.
        after: Rules that may have been told before: the fault begins as one of these.
    """

    name: str
    rule: str
    build: object
    parameter: str | None = None
    steps: tuple[int, int] = (AT, AT)
    run_on: int = 12
    after: tuple[str, ...] = ()


FAULTS: list[Fault] = []


def fault(rule, *, parameter=None, steps=(AT, AT), run_on=12, after=()):
    def keep(build):
        name = build.__name__.replace("_", " ")
        FAULTS.append(Fault(name, rule, build, parameter, steps, run_on, after))
        return build

    return keep


def _at(loop, place, act):
    def hook(self, step, value):
        return act(self, value) if step == AT else None

    loop.hooks[place] = hook
    return loop


def _plain(kind, **settings):
    settings = {"schedule": lambda: None, "clip": 0.0, "accumulate": 1} | settings
    return make_loop(kind, seed=7, **settings)


def _adam(model):
    return torch.optim.AdamW(model.parameters(), 2e-3)


@fault("NUM503")
def bad_batch():
    return _at(_plain("mlp"), "batch", lambda _, batch: (batch[0], 300 * batch[1]))


@fault("NUM503")
def labels_shuffled_in_one_batch_of_a_learned_task():
    def act(_, batch):
        return batch[0], (batch[1] + 5) % 10

    loop = _plain("cnn", optimizer=lambda m: torch.optim.AdamW(m.parameters(), 1e-2))
    loop.score = lambda model, x, y: F.cross_entropy(model(x).float(), y)
    loop.batch = _images(0.0)
    return _at(loop, "batch", act)


@fault("DAT408")
def batch_with_a_nan():
    def act(_, batch):
        batch[0][3, 2] = torch.nan
        return batch

    return _at(_plain("mlp"), "batch", act)


@fault("NUM508")
def exploding_rate():
    def act(loop, _):
        loop.optimizer.param_groups[0]["lr"] *= 1e4

    return _at(_plain("vit"), "step", act)


@fault("NUM511", steps=(AT, AT + 60), run_on=70, after=("NUM503",))
def climbing_instead_of_descending():
    def act(loop, _):
        loop.optimizer.param_groups[0]["maximize"] = True

    loop = _plain("mlp", optimizer=lambda m: torch.optim.SGD(m.parameters(), 0.035))
    same = loop.batch()
    loop.batch = lambda: same
    return _at(loop, "step", act)


@fault("NUM502", parameter="4.weight")
def nan_from_a_masked_sqrt():
    def act(loop, loss):
        nothing = (loop.model[4].weight * 0).sum()
        return loss + torch.where(nothing > 1, nothing.sqrt(), nothing)

    return _at(_plain("mlp"), "loss", act)


@fault("NUM506", parameter="body.1.running_var")
def batch_norm_poisoned():
    def act(loop, _):
        loop.model.body[1].running_var *= 1e14

    return _at(_plain("cnn"), "step", act)


@fault("NUM506", parameter="body.4.running_var")
def batch_norm_variance_negative():
    def act(loop, _):
        loop.model.body[4].running_var[3] *= -40

    return _at(_plain("cnn"), "step", act)


@fault("NUM506", parameter="body.1.running_mean")
def batch_norm_poisoned_by_a_batch():
    return _at(_plain("cnn"), "batch", lambda _, batch: (1e9 * batch[0], batch[1]))


@fault("NUM510", run_on=16)
def scale_collapse():
    def hook(loop, step, _):
        if step >= AT:
            loop.model.head.weight.grad[0, 0] = torch.inf

    loop = _plain("vit", dtype="fp16")
    loop.hooks["backward"] = hook
    return loop


@fault("NUM501")
def nan_before_scaling():
    loop = _plain("vit", dtype="fp16")
    return _at(loop, "loss", lambda _, loss: loss + (loss - loss.detach()).sqrt() * torch.nan)


@fault("NUM505", parameter="4.weight")
def parameter_replaced_behind_the_optimizer():
    def act(loop, batch):
        loop.model[4].weight = nn.Parameter(loop.model[4].weight.detach().clone())
        return batch

    return _at(_plain("mlp"), "batch", act)


@fault("NUM505", parameter="2.weight")
def parameter_held_in_place():
    def act(loop, _):
        weight = loop.model[2].weight
        held = weight.detach().clone()

        def put_back(*_):
            with torch.no_grad():
                weight.copy_(held)

        handle = torch.optim.Optimizer.register_step_post_hook(loop.optimizer, put_back)
        loop.handle = handle

    return _at(_plain("mlp", optimizer=_adam), "step", act)


@fault("NUM507", parameter="2.weight")
def adam_second_moment_negative():
    def act(loop, _):
        loop.optimizer.state[loop.model[2].weight]["exp_avg_sq"][5, 7] *= -1

    return _at(_plain("mlp", optimizer=_adam), "step", act)


@fault("NUM507", parameter="head.weight")
def adam_first_moment_too_large():
    def act(loop, _):
        loop.optimizer.state[loop.model.head.weight]["exp_avg"][1, 2] += 1e6

    return _at(_plain("rnn", optimizer=_adam), "step", act)


@fault("NUM507", parameter="head.weight")
def adam_moment_not_a_number():
    def act(loop, _):
        loop.optimizer.state[loop.model.head.weight]["exp_avg"][1, 2] = torch.nan

    return _at(_plain("vit", optimizer=_adam), "step", act)


@fault("NUM507", parameter="4.weight")
def step_counter_mixed():
    def act(loop, _):
        loop.optimizer.state[loop.model[4].weight]["step"].fill_(3.0)

    return _at(_plain("mlp", optimizer=_adam), "step", act)


@fault("FIL115")
def state_loaded_in_another_order():
    def act(loop, _):
        names = dict(loop.model.named_parameters())
        other = torch.optim.AdamW([*reversed([*names.items()])][1:3], 2e-3)
        del other
        state = loop.optimizer.state_dict()
        group = state["param_groups"][0]
        # As from a file: torch hands out the list that the optimizer itself goes by.
        order = group["param_names"] = list(group["param_names"])
        one, two = order.index("0.bias"), order.index("2.bias")
        order[one], order[two] = order[two], order[one]
        state["state"][one], state["state"][two] = state["state"][two], state["state"][one]
        loop.optimizer.load_state_dict(state)

    loop = _plain(
        "mlp", optimizer=lambda model: torch.optim.AdamW([*model.named_parameters()], 2e-3)
    )
    return _at(loop, "step", act)


@fault("NUM508", parameter="embed.weight")
def infinity_in_an_unused_embedding_row():
    def act(loop, _):
        with torch.no_grad():
            loop.model.embed.weight[250, 3] = torch.inf

    return _at(_plain("rnn"), "step", act)


@fault("NUM501", parameter="embed.weight")
def infinity_in_a_used_embedding_row():
    def act(loop, batch):
        with torch.no_grad():
            loop.model.embed.weight[batch[0][0, 0], 3] = torch.inf
        return batch

    return _at(_plain("gpt"), "batch", act)


@fault("NUM501")
def log_of_zero():
    def act(loop, loss):
        return loss + torch.log((loop.model[2].weight * 0).sum())

    return _at(_plain("mlp"), "loss", act)


@fault("NUM501")
def division_by_zero():
    def act(loop, loss):
        return loss / (loop.model[2].weight.detach() * 0).sum()

    return _at(_plain("mlp"), "loss", act)


@fault("NUM501")
def overflow_in_float16_without_a_scaler():
    def act(_, batch):
        return batch[0] * 1e5, batch[1]

    loop = _plain("mlp", dtype="fp16", use_scaler=False)
    return _at(loop, "batch", act)


@fault("NUM508")
def checkpoint_of_another_run_loaded_over():
    def act(loop, batch):
        loop.model.load_state_dict(make_loop("vit", seed=999).model.state_dict())
        return batch

    return _at(_plain("vit"), "batch", act)


@fault("NUM505")
def rate_of_one_group_falls_to_zero():
    def act(loop, _):
        loop.optimizer.param_groups[1]["lr"] = 0.0

    def two_groups(model):
        return torch.optim.AdamW(
            [{"params": model[:3].parameters()}, {"params": model[3:].parameters()}], 2e-3
        )

    return _at(_plain("mlp", optimizer=two_groups), "step", act)


@fault("NUM504")
def gradient_out_of_scale():
    def act(loop, _):
        loop.model.head.weight.grad *= 1e4

    return _at(_plain("vit"), "backward", act)


@fault("NUM508", steps=(AT, AT))
def division_by_zero_inside_adam():
    def act(loop, _):
        group = loop.optimizer.param_groups[0]
        group["eps"] = 0.0
        state = loop.optimizer.state[loop.model[2].weight]
        state["exp_avg_sq"][0, 0] = 0
        state["exp_avg"][0, 0] = 0
        loop.model[2].weight.grad[0, 0] = 0

    return _at(_plain("mlp", optimizer=_adam), "step", act)


@fault("NUM509", steps=(AT, AT + 80), run_on=80)
def jitter_at_a_regular_period():
    def hook(_, step, loss):
        return loss + 2.0 if step % 7 == 0 else None

    loop = _plain("mlp", optimizer=_adam)
    loop.hooks["loss"] = hook
    return loop


def caught(planted, verdict):
    """Return whether a fault was found as it has to be, and how."""
    for finding in verdict.findings:
        if not finding.rule.startswith(("NUM", planted.rule)) or finding.rule in planted.after:
            continue
        low, high = planted.steps
        named = planted.parameter in (None, finding.where.parameter)
        right = finding.rule == planted.rule and low <= (finding.where.step or 0) <= high
        return right and named, f"{finding.rule} at step {finding.where.step}: {finding.message}"
    return False, "nothing was found"


def run_fault(planted, folder):
    loop = planted.build()
    return watch(loop, AT + planted.run_on, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--clean", type=int, default=48)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    results = {"clean": [], "faults": []}
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        for index, (kind, seed, dtype, variant) in enumerate(clean_runs()[: options.clean]):
            name = f"{kind} {dtype} seed {seed} variant {variant}"
            if options.only not in name:
                continue
            loop = make_loop(kind, seed=seed, dtype=dtype, variant=variant, steps=options.steps)
            verdict = watch(loop, options.steps, Path(folder) / f"clean-{index}")
            said = [
                f"{each.rule} at {each.where.step}: {each.message}" for each in verdict.findings
            ]
            missed = [each.what for each in verdict.coverage.skipped if each.promised]
            skips = sum(s.skipped for s in everybit.open_run(verdict.target[0]).log(0).steps())
            results["clean"].append(
                {"name": name, "findings": said, "not_checked": missed, "skipped_steps": skips}
            )
            print(f"clean  {name}: {said or 'quiet'} {missed or ''} ({skips} skips)")
        for index, planted in enumerate(FAULTS):
            if options.only not in planted.name:
                continue
            verdict = run_fault(planted, Path(folder) / f"fault-{index}")
            right, how = caught(planted, verdict)
            more = [f"{e.rule} at {e.where.step}" for e in verdict.findings][1:]
            results["faults"].append(
                {
                    "name": planted.name,
                    "rule": planted.rule,
                    "steps": planted.steps,
                    "right": right,
                    "said": how,
                    "further": more,
                }
            )
            print(f"fault  {planted.name}: {'found' if right else 'MISSED'}: {how} {more or ''}")
    quiet = sum(not each["findings"] for each in results["clean"])
    found = sum(each["right"] for each in results["faults"])
    print(f"{quiet} of {len(results['clean'])} clean runs quiet", end="; ")
    print(f"{found} of {len(results['faults'])} faults found and named")
    if options.only:
        return
    facts = {
        "commit": commit(),
        "torch": torch.__version__,
        "steps": options.steps,
        "planted_at": AT,
        "seconds": round(time.time() - began, 1),
        "clean_quiet": quiet,
        "faults_found": found,
    }
    RESULTS.write_text(json.dumps(facts | results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
