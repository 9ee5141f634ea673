"""Train a subject, with or without a Guard and a fault, and remember its bits."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
import xxhash

from everybit.drill.subjects import Training, build
from everybit.inject import list_computed_targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.inject import ComputedTarget

#: Steps of a trial.
STEPS = 12


@dataclass(slots=True, kw_only=True)
class Trained:
    """The bits of a training run.

    Attributes:
        losses: Loss of each step.
        words: Digest of each step: its loss, its gradients, and all state after it.
        seconds: Time of the steps.
    """

    losses: list[float] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def loss(self) -> float | None:
        """The last loss; None where it is not a number."""
        return self.losses[-1] if self.losses and math.isfinite(self.losses[-1]) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A subject's undisturbed run, without a Guard.

    Attributes:
        run: Its bits.
        computed: What the model computes.
    """

    run: Trained
    computed: list[ComputedTarget]


@lru_cache(maxsize=64)
def reference(subject: str, dtype: str, steps: int = STEPS, seed: int = 0) -> Reference:
    """Train undisturbed; each is trained once in a process."""
    training = build(subject, dtype, seed)
    batch = training.batch()
    computed = list_computed_targets(training.model, lambda: training.loss_backward(*batch))
    return Reference(run=train(build(subject, dtype, seed), steps), computed=computed)


def train(
    training: Training,
    steps: int,
    before_step: Callable[[int], Any] = lambda _: None,
    *,
    into: Trained | None = None,
    through: Callable[..., torch.Tensor] | None = None,
) -> Trained:
    """Train, and return the bits.

    Args:
        training: Fresh.
        steps: How many.
        before_step: Called before each with its number.
        into: What to fill: an error leaves in it what was trained before.
        through: Carries out a step, given its function and its batch: a Guard's closure form.
    """
    trained = Trained() if into is None else into
    for step in range(steps):
        before_step(step)
        batch = training.batch()
        began = time.perf_counter()
        loss = training.step(*batch) if through is None else through(training.step, *batch)
        trained.seconds += time.perf_counter() - began
        trained.losses.append(float(loss))
        trained.words.append(words_of(training.model, training.optimizer, loss))
    return trained


def words_of(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor | None
) -> int:
    """Return one digest over a loss, all gradients, weights, buffers and optimizer state."""
    digest = xxhash.xxh3_64()
    tensors = [*([] if loss is None else [loss]), *model.parameters(), *model.buffers()]
    tensors += [p.grad for p in model.parameters() if p.grad is not None]
    tensors += [
        value
        for group in optimizer.param_groups
        for p in group["params"]
        for value in optimizer.state.get(p, {}).values()
        if isinstance(value, torch.Tensor)
    ]
    for tensor in tensors:
        raw: Any = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
        digest.update(raw)
    return digest.intdigest()
