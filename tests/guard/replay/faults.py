"""Faults of computing, as a device would make them: bits flip in memory, nothing else moves."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    import torch
    from torch import nn


def flip(tensor: torch.Tensor, rng: random.Random, *, bit: int | None = None) -> tuple[int, int]:
    """Flip one bit past torch: no version counter moves. Returns element and bit."""
    assert tensor.is_contiguous()
    size = tensor.element_size()
    element, drawn = rng.randrange(tensor.numel()), rng.randrange(8 * size)
    bit = drawn if bit is None else bit
    byte = ctypes.c_uint8.from_address(tensor.data_ptr() + element * size + bit // 8)
    byte.value ^= 1 << (bit % 8)
    return element, bit


@dataclass
class Hit:
    """What a fault has done."""

    element: int = -1
    bit: int = -1
    tensors: list[torch.Tensor] = field(default_factory=list)


@contextmanager
def wrong_once(
    module: nn.Module, kind: str, rng: random.Random, *, bit: int | None = None
) -> Iterator[Hit]:
    """Let a module err at its next call.

    Args:
        module: Returns a tensor.
        kind: `activation`: of its output; `gradient`: of the gradient of its output; `saved`: its
            output is kept in the hit, to be damaged later.
        rng: Draws element and bit.
        bit: The bit, where it is not drawn.
    """
    hit = Hit()
    forward = module.forward
    armed = [True]

    def wrong(gradient: torch.Tensor) -> torch.Tensor:
        damaged = gradient.contiguous().clone()
        hit.element, hit.bit = flip(damaged, rng, bit=bit)
        return damaged

    def forward_once(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        if armed:
            armed.clear()
            if kind == "activation":
                hit.element, hit.bit = flip(output, rng, bit=bit)
            elif kind == "gradient":
                output.register_hook(wrong)
            else:
                hit.tensors.append(output.detach())
        return output

    module.forward = forward_once  # type: ignore[method-assign]
    try:
        yield hit
    finally:
        del module.forward
