"""A small model that takes every path of the marks, a step of it, and ways to damage it."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from everybit.probe.memory import TensorMemory, dtype_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.finding import Finding

#: Elements of the last layer: more than one block of 255 KB in either dtype.
WIDE = 2200


def build(
    dtype: torch.dtype = torch.float32, *, wide: int = WIDE, **options: Any
) -> tuple[nn.Module, Any]:
    """Linear, batch norm, linear: verbatim, grid and several-block tensors; AdamW."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, wide))
    model = model.to(dtype)
    return model, torch.optim.AdamW(model.parameters(), **options)


def loss_of(model: nn.Module) -> torch.Tensor:
    parameter = next(model.parameters())
    return model(torch.randn(4, 16).to(parameter.dtype)).float().square().mean()


def train_step(model: nn.Module, optimizer: Any) -> None:
    loss_of(model).backward()
    optimizer.step()
    optimizer.zero_grad()


@dataclass
class Place:
    """A carried tensor and what a finding calls it."""

    tensor: torch.Tensor
    parameter: str
    kind: str
    state: str | None = None

    @property
    def rule(self) -> str:
        return "MEM602" if self.kind == "state" else "MEM601"

    @property
    def width(self) -> int:
        return 8 * self.tensor.element_size()

    @property
    def name(self) -> str:
        return f"{self.parameter}:{self.state}" if self.state else self.parameter


def places_of(model: nn.Module, optimizer: Any = None) -> Iterator[Place]:
    names = {}
    for name, parameter in model.named_parameters():
        names[id(parameter)] = name
        yield Place(parameter, name, "parameter")
    for name, buffer in model.named_buffers():
        yield Place(buffer, name, "buffer")
    if optimizer is not None:
        for parameter, state in optimizer.state.items():
            for key, value in state.items() if id(parameter) in names else ():
                yield Place(value, names[id(parameter)], "state", key)


def bits_of(*things: Any) -> list[bytes]:
    """The bytes of all parameters, buffers and optimizer state."""
    return [TensorMemory.of(place.tensor).copy() for place in places_of(*things)]


def flip(tensor: torch.Tensor, element: int, *bits: int) -> None:
    """Flip bits of an element (row-major), past every counter."""
    size = tensor.element_size()
    offset = 0
    left = element
    for length, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        left, index = divmod(left, length)
        offset += index * stride
    address = tensor.data_ptr() + offset * size
    raw = int.from_bytes(ctypes.string_at(address, size), "little")
    for bit in bits:
        raw ^= 1 << bit
    ctypes.memmove(address, raw.to_bytes(size, "little"), size)


def check_named(finding: Finding, place: Place, element: int, bits: tuple[int, ...]) -> None:
    """The finding names the tensor, the element and the bits, and nothing else."""
    assert finding.rule == place.rule
    where, evidence = finding.where, finding.evidence
    assert (where.parameter, where.tensor) == (place.parameter, place.state)
    assert where.elements == (element,), (where, element)
    assert evidence["num_elements"] == 1
    assert evidence["num_bits"] == len(bits)
    assert evidence["dtype"] == dtype_name(place.tensor.dtype)
    (change,) = evidence["changes"]
    assert (change["element"], tuple(change["bits"])) == (element, bits)
    assert evidence["confirmed"]
