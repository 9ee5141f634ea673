"""A data set's own list of labels, and whether a batch's labels are those of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from everybit.probe.contents.words import word_of_leaf

if TYPE_CHECKING:
    from collections.abc import Sequence

_LABELS: Final = ("targets", "labels", "_labels", "_targets", "y")
#: Labels of a list of Python's, and of an array, that are looked at for their order.
MAX_LISTED: Final = 200_000
MAX_NUMBERS: Final = 4_000_000
#: Labels, and share of them, that lie elsewhere from which on an other order is no chance.
ENOUGH: Final = 8
MANY: Final = 0.35
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


class Labels:
    """Whether a data set's own list of labels is another order of what it was at first.

    Attributes:
        are_permuted: It is, and so many are others that it is no chance.
    """

    def __init__(self) -> None:
        self.are_permuted = False
        self._first: Any = None
        self._word = 0

    def look(self, labels: Any) -> None:
        """Take the list as a pass begins; one that cannot be read as numbers is passed over."""
        now = _numbers(labels)
        if now is None:
            return
        word = word_of_leaf(now)
        if self._first is None or len(self._first) != len(now):
            self._first, self._word = now.copy(), word
            return
        if word == self._word:
            self.are_permuted = False
            return
        many = int((now != self._first).sum()) >= max(ENOUGH, MANY * len(now))
        self.are_permuted = many and bool((np.sort(now) == np.sort(self._first)).all())


def _numbers(labels: Any) -> Any:
    if isinstance(labels, (list, tuple)):
        if len(labels) > MAX_LISTED or not all(type(each) in (int, float) for each in labels):
            return None
        return np.asarray(labels)
    if isinstance(labels, torch.Tensor):
        if not labels.is_cpu or labels.dtype is torch.bfloat16:
            return None
        labels = labels.detach().numpy()
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iufb":
        return None
    return labels if len(labels) <= MAX_NUMBERS else None


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
