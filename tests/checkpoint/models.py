"""Small models and the files that training scripts write of them."""

from __future__ import annotations

import torch
from torch import nn


class Small(nn.Module):
    """Two layers, a BatchNorm and a head, as a classifier has them."""

    def __init__(self, classes=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.body(x))


class Tied(nn.Module):
    """An embedding whose weights are the output layer's too."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.mix = nn.Linear(4, 4)
        self.lm_head = nn.Linear(4, 11, bias=False)
        self.lm_head.weight = self.embed.weight

    def forward(self, x):
        return self.lm_head(self.mix(self.embed(x)))


def seeded(make, seed=0, **kwargs):
    """Return a model whose weights follow from a seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make(**kwargs)


def trained(model, optimizer=None, steps=2, seed=1):
    """Train a few steps, so that every state is there and differs."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 6, generator=generator)).square().mean().backward()
        optimizer.step()
    return optimizer


def copies(model):
    """Return copies of all tensors by name."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(model, values):
    """Whether a model holds these very values."""
    held = model.state_dict()
    return held.keys() == values.keys() and all(
        torch.equal(held[name], value) for name, value in values.items()
    )
