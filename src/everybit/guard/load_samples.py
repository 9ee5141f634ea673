"""A few elements of every loaded tensor, to tell later whether an initialisation ran over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from everybit.checkpoint.keys import head_of
from everybit.probe.memory import is_dense, why_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Elements kept of a tensor: two independent samples of this size correlate above a half once in
#: ten thousand cases.
_NUM_ELEMENTS: Final = 64
_MIN_ELEMENTS: Final = 12
_MAX_TENSORS: Final = 20_000
#: Below this correlation the values have nothing to do with each other.
_UNRELATED: Final = 0.5
#: Share of the loaded weights that must be initialised again: a few layers are so on purpose.
_MIN_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampled:
    """Elements of tensors as they were loaded.

    Attributes:
        values: `{name: elements}`, on the tensor's own device.
        shapes: Shapes and dtypes by name.
        strides: Strides by name: the same elements are looked at later where they are the same.
    """

    values: Mapping[str, torch.Tensor]
    shapes: Mapping[str, tuple[torch.Size, torch.dtype]]
    strides: Mapping[str, tuple[int, ...]]


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors of a module by state_dict key, without the hooks of a state_dict."""
    found: dict[str, torch.Tensor] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        above = f"{prefix}." if prefix else ""
        for name, parameter in part._parameters.items():
            if parameter is not None:
                found[above + name] = parameter
        for name, buffer in part._buffers.items():
            if buffer is not None and name not in part._non_persistent_buffers_set:
                found[above + name] = buffer
    return found


def sample(held: Mapping[str, torch.Tensor], names: Iterable[str]) -> Sampled:
    """Take a few elements of each tensor; no sync on accelerators."""
    values, shapes, strides = {}, {}, {}
    for name in list(names)[:_MAX_TENSORS]:
        tensor = held[name].detach()
        if tensor.numel() < _MIN_ELEMENTS or not tensor.is_floating_point():
            continue
        if tensor.element_size() == 1:
            continue  # Elements of 8-bit types cannot be picked.
        if not why_unreadable(tensor):
            values[name] = _elements(tensor)
            shapes[name] = (tensor.shape, tensor.dtype)
            strides[name] = tensor.stride()
    return Sampled(values=values, shapes=shapes, strides=strides)


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    count = min(_NUM_ELEMENTS, tensor.numel())
    step = tensor.numel() // count
    if is_dense(tensor):  # In memory order, without a copy of the whole.
        flat = tensor.as_strided((tensor.numel(),), (1,))
        return flat[: count * step : step].to(torch.float32, copy=True)
    index = torch.unravel_index(torch.arange(count, device=tensor.device) * step, tensor.shape)
    return tensor[index].to(torch.float32, copy=True)


def reinitialised(before: Sampled, module: torch.nn.Module) -> list[str]:
    """Return the names of tensors that hold unrelated values now, where that is no new head.

    Empty too where less than half of the loaded weights are concerned, or a single layer: those
    are initialised again on purpose. One sync for each device.
    """
    now = tensors_of(module)
    names = [
        name
        for name, (shape, dtype) in before.shapes.items()
        if name in now
        and now[name].shape == shape
        and now[name].dtype == dtype
        and now[name].stride() == before.strides[name]
        and not why_unreadable(now[name])
    ]
    found, num_judged = [], 0
    for one, other, name in zip(
        _on_host([before.values[name] for name in names]),
        _on_host([_elements(now[name].detach()) for name in names]),
        names,
        strict=True,
    ):
        spread = one - one.mean()
        if not torch.isfinite(one).all() or not spread.any():
            continue  # All alike, as a bias of zeros: any initialisation looks the same.
        num_judged += 1
        if not torch.equal(one, other) and _unrelated(spread, other - other.mean()):
            found.append(name)
    layers = {name.rpartition(".")[0] for name in found}
    heads = {head_of(name) for name in found}
    if len(layers) < 2 or len(found) < _MIN_SHARE * num_judged:
        return []
    return [] if len(heads) == 1 and None not in heads else found


def _unrelated(one: torch.Tensor, other: torch.Tensor) -> bool:
    size = float(one.norm() * other.norm())
    return not size or not float(one @ other) / size >= _UNRELATED


def _on_host(samples: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return samples on the CPU: those of one device in one copy."""
    by_device: dict[torch.device, list[int]] = {}
    for index, values in enumerate(samples):
        by_device.setdefault(values.device, []).append(index)
    found = list(samples)
    for device, indices in by_device.items():
        if device.type != "cpu":
            sizes = [len(samples[index]) for index in indices]
            pieces = torch.split(torch.cat([samples[index] for index in indices]).cpu(), sizes)
            for index, piece in zip(indices, pieces, strict=True):
                found[index] = piece
    return found
