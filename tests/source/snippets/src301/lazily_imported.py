# expect: SRC301@14
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
else:
    torch = importlib.import_module("torch")


def read(path):
    return torch.load(path, weights_only=False)
