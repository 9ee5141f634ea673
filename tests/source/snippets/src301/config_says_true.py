# expect: none
from dataclasses import dataclass, field

import torch

SAFE = True


@dataclass
class Config:
    path: str = "model.pt"
    weights_only: bool = True
    options: dict = field(default_factory=lambda: {"weights_only": True})


CONFIG = Config()


def read(config: Config, safe: bool = SAFE):
    torch.load(config.path, **config.options)
    torch.load(config.path, **CONFIG.options)
    torch.load(config.path, weights_only=safe)
    return torch.load(config.path, weights_only=config.weights_only)
