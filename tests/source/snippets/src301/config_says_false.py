# expect: SRC301@14
from dataclasses import dataclass

import torch


@dataclass
class Config:
    path: str = "model.pt"
    weights_only: bool = False


def read(config: Config):
    return torch.load(config.path, weights_only=config.weights_only)
