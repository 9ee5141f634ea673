"""Settings as plain values: numbers, text, and lists of these."""

from __future__ import annotations

import math
from typing import Any

import torch

_MAX_ITEMS = 16
_MAX_TEXT = 200


def plain(value: Any) -> Any:
    """Return a setting as JSON holds it; None where it is no plain one.

    >>> plain((0.9, 0.999)), plain("same"), plain(object()), plain(float("inf"))
    ([0.9, 0.999], 'same', None, 'inf')
    """
    kind = type(value)
    if kind is bool or kind is int:
        return value
    if isinstance(value, float):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if kind is str:
        return value[:_MAX_TEXT]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.Tensor):
        # To read one of an accelerator would be a sync; it is tested as part of the state.
        readable = value.device.type == "cpu" and value.numel() == 1 and not value.is_complex()
        return plain(value.item()) if readable else None
    if isinstance(value, (tuple, list)) and len(value) <= _MAX_ITEMS:
        items = [plain(item) for item in value]
        return None if any(item is None for item in items) else items
    return None
