"""A small fixed data set for a project to investigate in: inputs, and labels that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from pathlib import Path

NUM_SAMPLES: Final = 256
NUM_FEATURES: Final = 16
NUM_CLASSES: Final = 4


def write_sample_input(path: Path, seed: int = 42) -> None:
    """Save `{"inputs": float32 (256, 16), "labels": int64 (256,)}`; draws from no global stream.

    Args:
        path: The file.
        seed: Of the numbers.
    """
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(NUM_SAMPLES, NUM_FEATURES, generator=rng)
    labels = (inputs @ torch.randn(NUM_FEATURES, NUM_CLASSES, generator=rng)).argmax(1)
    torch.save({"inputs": inputs, "labels": labels}, path)
