"""The training loop of the demo, as anybody would write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from everybit.drill.gpt import GPT, GPTConfig
from everybit.drill.text import Batches

if TYPE_CHECKING:
    from collections.abc import Callable

    Before = Callable[[int, GPT, torch.optim.Optimizer], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a training run follows from, but for the text.

    Attributes:
        model: Sizes of the model.
        batch: Pieces a batch.
        steps: Updates.
        seed: Seed of weights, dropout and batches.
    """

    model: GPTConfig
    batch: int = 8
    steps: int = 40
    seed: int = 0

    def build(self) -> tuple[GPT, torch.optim.Optimizer]:
        """Return a fresh model and its AdamW."""
        torch.manual_seed(self.seed)
        model = GPT(self.model)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(
    recipe: Recipe,
    text: torch.Tensor,
    model: GPT,
    optimizer: torch.optim.Optimizer,
    *,
    before_step: Before | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[float]:
    """Train and return the loss of every step.

    Args:
        recipe: What to do.
        text: uint8 tokens.
        model: Model of `recipe.build()`.
        optimizer: Its optimizer.
        before_step: Called between steps: where faults are planted.
        progress: Called with the number of steps done.
    """
    batches = Batches(text, batch=recipe.batch, context=recipe.model.context, seed=recipe.seed)
    losses = []
    for step in range(recipe.steps):
        tokens, targets = batches.next()
        if before_step is not None:
            before_step(step, model, optimizer)
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().numpy().item())
        progress(step + 1)
    return losses
