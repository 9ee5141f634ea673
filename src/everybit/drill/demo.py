"""The demo's acts: training runs under a Guard, with faults planted between steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from everybit.core.config import Config
from everybit.drill.gpt import GPTConfig
from everybit.drill.scenes import Scene, Truth, demo_scenes
from everybit.drill.training import Recipe, train
from everybit.guard import Guard
from everybit.probe.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.core.verdict import Verdict

#: Model and schedule of the demo: about 0.9 million parameters, seconds on two cores.
RECIPE = Recipe(model=GPTConfig(), batch=8, steps=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A finished training run.

    Attributes:
        losses: Loss of every step.
        weights: state_dict of model and optimizer.
        verdict: What the Guard said.
    """

    losses: list[float]
    weights: dict[str, dict[str, object]]
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """One fault and what the Guard made of it.

    Attributes:
        scene: What was planted.
        truth: What it did to memory.
        finding: The finding at that place, None where it was missed.
    """

    scene: Scene
    truth: Truth
    finding: Finding | None

    @property
    def named_right(self) -> bool:
        """Whether the finding names the tensor, every element and bit, and the step."""
        if self.finding is None or self.finding.where.step != self.scene.step:
            return False
        listed = self.finding.evidence.get("changes", [])
        truth = [change.to_json() for change in self.truth.changes]
        elements = self.finding.where.elements
        if elements is None:
            ranges = self.finding.where.element_ranges or ()
            elements = tuple(e for start, end in ranges for e in range(start, end))
        return listed == truth[: len(listed)] and elements == tuple(
            change.element for change in self.truth.changes
        )

    @property
    def healed(self) -> bool:
        """Whether the Guard says that the right bits are back."""
        return self.finding is not None and bool(self.finding.evidence["healed"])


def train_guarded(
    folder: Path,
    text: torch.Tensor,
    *,
    on_finding: str = "warn",
    shadow: bool = False,
    scenes: Sequence[Scene] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[Trained, list[Caught]]:
    """Train under a Guard, with faults planted between steps.

    Args:
        folder: Run folder.
        text: uint8 tokens.
        on_finding: Policy of the Guard.
        shadow: Whether the Guard keeps copies.
        scenes: What to plant.
        progress: Called with the number of steps done.
    """
    model, optimizer = RECIPE.build()
    truths: list[tuple[Scene, Truth]] = []

    def before_step(step: int, *_: object) -> None:
        truths.extend((s, s.plant(model, optimizer)) for s in scenes if s.step == step)

    # Its own settings, whatever the environment and the files around it say.
    settings = Config().updated({"on_finding": on_finding, "shadow": shadow})
    guarded = Guard(model, optimizer, run=folder, config=settings)
    with one_thread(), guarded as guard:
        losses = train(RECIPE, text, model, optimizer, before_step=before_step, progress=progress)
    weights = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    caught = [
        Caught(scene=scene, truth=truth, finding=_finding_of(truth, guard.findings))
        for scene, truth in truths
    ]
    return Trained(losses=losses, weights=weights, verdict=guard.verdict), caught


def _finding_of(truth: Truth, findings: Sequence[Finding]) -> Finding | None:
    return next(
        (
            finding
            for finding in findings
            if finding.where.parameter == truth.parameter
            and (finding.where.tensor or "") == truth.tensor
        ),
        None,
    )


def save(weights: dict[str, dict[str, object]], path: Path) -> None:
    """Save as everybody does, with `torch.save`."""
    torch.save(weights, path)


def load(path: Path) -> object:
    """Load as everybody should, with `torch.load(weights_only=True)`."""
    loaded: object = torch.load(path, weights_only=True)
    return loaded


def same_bits(a: object, b: object) -> bool:
    """Whether two nests of dictionaries, lists and tensors hold the same bits."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and a.contiguous()
            .reshape(-1)
            .view(torch.uint8)
            .equal(b.contiguous().reshape(-1).view(torch.uint8))
        )
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_bits(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_bits, a, b))
    return a == b


__all__ = [
    "RECIPE",
    "Caught",
    "Trained",
    "demo_scenes",
    "load",
    "same_bits",
    "save",
    "train_guarded",
]
