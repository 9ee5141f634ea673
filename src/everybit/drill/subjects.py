"""The models that a drill trains where no script is given: small, and each of another kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from everybit.drill.gpt import GPT, GPTConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Wrap = Callable[[nn.Module], nn.Module]

#: The dtypes that subjects are trained in, weights and all.
DTYPES: Final = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class Training:
    """A model in training: its parts, and one whole step of its loop.

    Args:
        model: In training mode, of one dtype.
        optimizer: Of all its parameters.
        batch: Draws a new batch.
        loss: Returns the loss of a batch.

    Attributes:
        model: The model.
        optimizer: Its optimizer.
        batch: Draws a new batch.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Callable[[], tuple[Tensor, ...]],
        loss: Callable[..., Tensor],
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.batch = batch
        self._loss = loss

    def step(self, *batch: Tensor) -> Tensor:
        """Train one step on a batch; return its loss."""
        loss = self.loss_backward(*batch)
        self.optimizer.step()
        return loss

    def loss_backward(self, *batch: Tensor) -> Tensor:
        """Compute loss and gradients of a batch, without an update."""
        self.optimizer.zero_grad()
        loss = self._loss(*batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


class _Image(nn.Module):
    """A CNN with batch norm, whose statistics are buffers that no optimizer writes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Map `(batch, 3, 12, 12)` to `(batch, 10)`."""
        scores: Tensor = self.head(self.pool(self.body(images)).flatten(1))
        return scores


class _Words(nn.Module):
    """An LSTM over integer tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 16)
        self.rnn = nn.LSTM(16, 24, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(24, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map int64 `(batch, tokens)` to `(batch, tokens, 64)`."""
        hidden, _ = self.rnn(self.embed(tokens))
        scores: Tensor = self.head(self.drop(hidden))
        return scores


def _gpt(dtype: torch.dtype, generator: torch.Generator, wrap: Wrap) -> Training:
    config = GPTConfig(layers=2, width=32, heads=2, context=16, vocabulary=64)
    model = wrap(GPT(config).to(dtype))

    def batch() -> tuple[Tensor, ...]:
        tokens = torch.randint(64, (4, 17), generator=generator)
        return tokens[:, :-1], tokens[:, 1:]

    # The usual 1e-8 is zero in float16.
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
    return Training(model, adamw, batch, model)


def _cnn(dtype: torch.dtype, generator: torch.Generator, wrap: Wrap) -> Training:
    model = wrap(_Image().to(dtype))

    def batch() -> tuple[Tensor, ...]:
        images = torch.randn(8, 3, 12, 12, generator=generator).to(dtype)
        return images, torch.randint(10, (8,), generator=generator)

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(model(images), labels)

    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return Training(model, sgd, batch, loss)


def _lstm(dtype: torch.dtype, generator: torch.Generator, wrap: Wrap) -> Training:
    model = wrap(_Words().to(dtype))

    def batch() -> tuple[Tensor, ...]:
        tokens = torch.randint(64, (6, 13), generator=generator)
        return tokens[:, :-1], tokens[:, 1:]

    def loss(tokens: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    return Training(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), batch, loss)


def _mlp(dtype: torch.dtype, generator: torch.Generator, wrap: Wrap) -> Training:
    plain = nn.Sequential(
        nn.Linear(20, 48),
        nn.LayerNorm(48),
        nn.GELU(),
        nn.Linear(48, 48),
        nn.Tanh(),
        nn.Linear(48, 4),
    )
    model = wrap(plain.to(dtype))

    def batch() -> tuple[Tensor, ...]:
        return (torch.randn(16, 20, generator=generator).to(dtype),)

    def loss(x: Tensor) -> Tensor:
        return F.mse_loss(model(x), x[:, :4] * x[:, 4:8])

    adam = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-4)
    return Training(model, adam, batch, loss)


#: `{name: how it is built}`.
SUBJECTS: Final[dict[str, Callable[[torch.dtype, torch.Generator, Wrap], Training]]] = {
    "gpt": _gpt,
    "cnn": _cnn,
    "lstm": _lstm,
    "mlp": _mlp,
}


def build(
    subject: str, dtype: str, seed: int = 0, *, wrap: Wrap = lambda model: model, rank: int = 0
) -> Training:
    """Return a fresh training; the same arguments train with the same bits.

    Args:
        subject: A name in `SUBJECTS`.
        dtype: A name in `DTYPES`.
        seed: Of weights, dropout and batches; sets torch's random stream.
        wrap: Puts the model into a wrapper, which is what the loop calls.
        rank: Ranks have the same weights, and batches of their own.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1 + 1000 * rank)
    return SUBJECTS[subject](DTYPES[dtype], generator, wrap)
