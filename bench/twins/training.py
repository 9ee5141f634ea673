"""One run of a twin under a Guard, in this process."""

from __future__ import annotations

import contextlib
import random
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from bench.twins.data import loader_of
from bench.twins.flips import Flipper
from bench.twins.models import build
from torch.nn import functional as F  # noqa: N812
from torch.optim.lr_scheduler import LambdaLR

import everybit

if TYPE_CHECKING:
    from pathlib import Path

    from bench.twins.settings import Settings


def optimizer_of(settings, model):
    """Return the optimizer that a run asks for."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if settings.optimizer == "SGD":
        return torch.optim.SGD(parameters, lr=settings.lr, momentum=0.9)
    kind = getattr(torch.optim, settings.optimizer)
    return kind(
        parameters,
        lr=settings.lr,
        eps=settings.eps,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
    )


def loss_of(settings, model, inputs, targets):
    """Return the loss of one batch."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=settings.autocast):
        answers = model(inputs)
    answers = answers.float().flatten(0, -2) if settings.model == "gpt" else answers.float()
    loss = F.cross_entropy(
        answers,
        targets.flatten(),
        reduction=settings.reduction,
        label_smoothing=settings.smoothing,
    )
    return loss / settings.accumulate


def train(settings: Settings, run: Path, **guard) -> None:
    """Train, recorded into `run`; `guard` are further settings of the Guard."""
    with _place(settings):
        model = build(settings)
        optimizer = optimizer_of(settings, model)
        loader = loader_of(settings)
        if settings.resume_at < 0:
            with _recorded(model, optimizer, run, guard):
                _steps(settings, model, optimizer, loader, 0, settings.steps)
            return
        _steps(settings, model, optimizer, loader, 0, settings.resume_at)
        kept = {
            "model": {k: v.clone() for k, v in model.state_dict().items()},
            "optimizer": optimizer.state_dict(),
            "rng": torch.get_rng_state(),
        }
        _go_on(settings, kept, loader, run, guard)


def _go_on(settings, kept, loader, run, guard) -> None:
    """Go on from a checkpoint as a new process would: with a new model, and what is restored."""
    torch.manual_seed(settings.seed + 77)
    model = build(replace(settings, init_seed=None))
    optimizer = optimizer_of(settings, model)
    model.load_state_dict(kept["model"])
    if settings.resume_without != "optimizer":
        optimizer.load_state_dict(kept["optimizer"])
    if settings.resume_without != "rng":
        torch.set_rng_state(kept["rng"])
    with _recorded(model, optimizer, run, guard):
        _steps(settings, model, optimizer, loader, settings.resume_at, settings.steps)


@contextlib.contextmanager
def _place(settings):
    """Set all that belongs to the process, and put it back."""
    held = sys.argv, torch.get_num_threads(), torch.get_float32_matmul_precision()
    onednn = torch.backends.mkldnn.enabled
    try:
        # What is planted is hidden, except where a twin says that it stands on the command line.
        sys.argv = ["train.py", *settings.told]
        torch.set_num_threads(settings.threads)
        torch.set_float32_matmul_precision(settings.matmul)
        torch._C._set_mkldnn_enabled(settings.onednn)
        random.seed(settings.seed)
        np.random.seed(settings.seed)
        torch.manual_seed(settings.seed)
        yield
    finally:
        sys.argv = held[0]
        torch.set_num_threads(held[1])
        torch.set_float32_matmul_precision(held[2])
        torch._C._set_mkldnn_enabled(onednn)


def _recorded(model, optimizer, run, guard):
    return everybit.Guard(model, optimizer, run=run, on_finding="record", **guard)


def _steps(settings, model, optimizer, loader, first: int, last: int) -> None:
    flipper = Flipper(settings.flip, model, optimizer)
    factor = {"constant": lambda _: 1.0, "cosine": lambda k: 1.0 - 0.05 * k, "late": _late}
    schedule = LambdaLR(optimizer, lambda k: factor[settings.schedule](first + k))
    model.train()
    batches = _batches(loader, settings, first)
    for step in range(first, last):
        flipper.step = step
        if step == settings.dropout_off_from:
            for module in model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.eval()
        if step == settings.norm_eval_from:
            model.bn1.eval()
        if step == settings.drawn_at:
            torch.rand(())
        for _ in range(settings.accumulate):
            inputs, targets = next(batches)
            flipper.before_step(inputs)
            loss = loss_of(settings, model, inputs, targets)
            flipper.loss(loss)
            loss.backward()
        flipper.after_backward()
        if settings.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step == settings.validate_after:
            _validate(model, loader)


def _late(step: int) -> float:
    return 1.0 if step < 4 else 0.5


def _batches(loader, settings, first: int):
    epoch = first * settings.batch_size // 40
    while True:
        if settings.sampler == "distributed" and settings.set_epoch:
            loader.sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def _validate(model, loader) -> None:
    """A pass in which nothing is trained; a shuffled loader draws from the global stream for it."""
    model.eval()
    with torch.no_grad():
        for inputs, _ in loader:
            model(inputs)
            break
    model.train()
