"""A small GPT and a small CNN, with the parts that differences are planted in."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

VOCABULARY = 96
CONTEXT = 16
CLASSES = 10


class Block(nn.Module):
    """Attention and a perceptron."""

    def __init__(self, width: int, settings) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=settings.norm_eps)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=settings.norm_eps)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU() if settings.activation == "gelu" else nn.ReLU()
        self.down = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(settings.dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 2, width // 2).unbind(2)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.drop(self.down(self.act(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """Two blocks."""

    def __init__(self, settings, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.place = nn.Embedding(CONTEXT, width)
        self.block0 = Block(width, settings)
        self.block1 = Block(width, settings)
        self.norm = nn.LayerNorm(width, eps=settings.norm_eps)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        if settings.tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.block1(self.block0(x))))


class CNN(nn.Module):
    """Two convolutions with batch norm, dropout, a classifier."""

    def __init__(self, settings) -> None:
        super().__init__()
        norm = {"momentum": settings.norm_momentum, "eps": settings.norm_eps}
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16, **norm)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(32, **norm)
        self.drop = nn.Dropout(settings.dropout)
        self.fc1 = nn.Linear(32 * 8 * 8, 32)
        self.act = nn.GELU() if settings.activation == "gelu" else nn.ReLU()
        self.fc2 = nn.Linear(32, CLASSES)

    def forward(self, images):
        x = self.act(self.bn1(self.conv1(images)))
        x = self.act(self.bn2(self.conv2(x)))
        return self.fc2(self.act(self.fc1(self.drop(x.flatten(1)))))


def build(settings) -> nn.Module:
    """Return the model of a run, drawn from the global stream or from a seed of its own."""
    if settings.init_seed is not None:
        torch.manual_seed(settings.init_seed)
    model = GPT(settings) if settings.model == "gpt" else CNN(settings)
    if settings.frozen:
        for parameter in model.get_submodule(settings.frozen).parameters():
            parameter.requires_grad_(False)
    return model
