"""Random generators that a program makes for itself."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def is_generator(value: Any) -> bool:
    """Whether a value is a generator of Python, torch or NumPy; NumPy is not loaded for it."""
    if isinstance(value, (torch.Generator, random.Random)):
        return True
    numpy = sys.modules.get("numpy.random")
    return numpy is not None and isinstance(value, (numpy.Generator, numpy.RandomState))
