"""A small GPT, as the demo and the benchmarks train it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True, slots=True, kw_only=True)
class GPTConfig:
    """Sizes of a GPT.

    Attributes:
        layers: Blocks.
        width: Channels, a multiple of `heads`.
        heads: Attention heads.
        context: Tokens the model sees at once.
        vocabulary: Token ids; 256 for bytes.
        dropout: Probability of dropping a channel.
    """

    layers: int = 4
    width: int = 128
    heads: int = 4
    context: int = 64
    vocabulary: int = 256
    dropout: float = 0.1


class Block(nn.Module):
    """Attention and a two-layer perceptron, each behind a layer norm and beside a residual."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.dropout = config.dropout
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `(batch, tokens, width)` to the same shape."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        hidden = self.down(F.gelu(self.up(self.norm2(x))))
        return x + F.dropout(hidden, self.dropout, self.training)


class GPT(nn.Module):
    """A decoder-only transformer over bytes, with sinusoidal positions as a buffer."""

    positions: torch.Tensor

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocabulary, config.width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.register_buffer("positions", _sinusoids(config.context, config.width))
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy in nats a token.

        Args:
            tokens: int64, `(batch, tokens)`.
            targets: int64, `(batch, tokens)`, the next token of each.
        """
        x = self.embed(tokens) + self.positions[: tokens.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _sinusoids(context: int, width: int) -> torch.Tensor:
    # Vaswani et al. 2017, section 3.5, scaled to the embedding.
    place = torch.arange(context).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-9.210340371976184 / width))
    return 0.02 * torch.cat((torch.sin(place * rate), torch.cos(place * rate)), dim=1)
