"""A data set's own list of labels, and whether a batch's labels are those of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_LABELS: Final = ("targets", "labels", "_labels", "_targets", "y")
#: Labels below which a shift may well be chance.
LEAST: Final = 4


def labels_of(dataset: Any) -> Any:
    """Return the data set's own list of labels, one an index; None where it keeps none."""
    held = getattr(dataset, "__dict__", {})
    try:
        length = len(dataset)
    except Exception:
        return None
    for name in _LABELS:
        labels = held.get(name)
        if not isinstance(labels, (list, tuple, np.ndarray, torch.Tensor)):
            continue
        if getattr(labels, "ndim", 1) == 1 and len(labels) == length:
            return labels
    return None


def shift_of(told: Sequence[float], indices: Sequence[int], labels: Any) -> int:
    """Return by how many places the labels of all samples are off the data set's list of them.

    Args:
        told: The labels that came, as numbers.
        indices: The indices that were asked for.
        labels: The data set's own list.

    Returns:
        1 or -1, or 0: they are right, or it cannot be told.
    """
    if len(told) != len(indices) or len(told) < LEAST or len(set(told)) < 2:
        return 0
    count = len(labels)
    matches = {
        shift: [_number(labels[(index + shift) % count]) for index in indices] == list(told)
        for shift in (0, 1, -1)
    }
    found = [shift for shift in (1, -1) if matches[shift]]
    return 0 if matches[0] or len(found) != 1 else found[0]


def _number(value: Any) -> float | None:
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
        size = value.numel() if isinstance(value, torch.Tensor) else value.size
        return float(value.item()) if size == 1 else None
    return float(value) if isinstance(value, (int, float)) else None
