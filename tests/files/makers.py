"""Model files, made by code, and ways to damage them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from pathlib import Path


def weights(seed: int = 0) -> dict:
    """A checkpoint with views, shared storages, strides and optimizer state."""
    rng = torch.Generator().manual_seed(seed)
    base = torch.randn(64, 48, generator=rng)
    tied = torch.nn.Parameter(base[:16].clone())
    return {
        "model": {
            "weight": torch.randn(300, 200, generator=rng),
            "bias": torch.randn(200, generator=rng).to(torch.bfloat16),
            "conv": torch.randn(8, 4, 3, 3, generator=rng).to(memory_format=torch.channels_last),
            "transposed": base.t(),
            "view": base[10:20],
            "tied": tied,
            "head": tied,
            "scalar": torch.tensor(3.5),
            "empty": torch.empty(0, 7),
        },
        "optimizer": {"state": {0: {"exp_avg": torch.randn(300, 200, generator=rng), "step": 7}}},
        "steps": [torch.arange(5), "text", None, 1.5],
    }


def save(value: object, path: Path, **options) -> Path:
    torch.save(value, path, **options)
    return path


def saved_bytes(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def flip(path: Path, offset: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def overwrite(path: Path, offset: int, new: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[offset : offset + len(new)] = new
    path.write_bytes(data)


def canonical(tensor: torch.Tensor) -> bytes:
    """The canonical bytes of a tensor, by torch."""
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    plain = (
        tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    )
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
