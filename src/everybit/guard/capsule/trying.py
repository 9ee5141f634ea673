"""Compute a capsule here, on some device, and compare with what was computed there.

Bit for bit, it is one of three: what the repeats gave, what was computed first, or neither. Neither
is normal on another kind of device, with another library or number of threads; then float64 tells
which of the two the errors speak for: rounding stays within a small factor of rounding.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.guard.capsule.content import decode, decode_module, finder
from everybit.guard.replay.values import tensors_in
from everybit.probe.digest import memory_words, readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.guard.capsule.content import Capsule

#: Errors that differ by no more than this factor may both be rounding.
MAX_RATIO: Final = 8.0


class Comparison(StrEnum):
    """What computing a capsule here says of the first computation.

    `right`: every bit as the repeats gave. `found`: the suspected result, every bit. `near-right`
    and `near-found`: neither, and float64 speaks for one of them. `other`: neither, and float64
    does not tell. `varies`: this device gives another result each time.
    """

    RIGHT = "right"
    FOUND = "found"
    NEAR_RIGHT = "near-right"
    NEAR_FOUND = "near-found"
    OTHER = "other"
    VARIES = "varies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A capsule computed here.

    Attributes:
        device: Where.
        times: How often.
        comparison: What came of it.
        differing: Names of the tensors that differ from what the repeats gave.
        errors: Largest relative errors against float64, in L2: `here`, `right`, `found`.
    """

    device: str
    times: int
    comparison: Comparison
    differing: tuple[str, ...]
    errors: dict[str, float]


def try_capsule(
    capsule: Capsule, *, device: str = "cpu", times: int = 3, allow: bool = False
) -> Attempt:
    """Compute a capsule here and compare.

    Args:
        capsule: As `read_capsule` gave it.
        device: `cpu`, `cuda:0` ...
        times: How often, at least once.
        allow: Import the classes of the program's own that it needs: this runs their code.

    Raises:
        ForeignCodeError: It needs such a class, and that is not allowed.
        ValueError: The capsule is none.
        RuntimeError: The device cannot compute it.
    """
    where = torch.device(device)
    results = [try_once(capsule, device=where, allow=allow) for _ in range(max(1, times))]
    first = results[0]
    errors: dict[str, float] = {}
    differing = tuple(name for name in capsule.right if not _same(first, capsule.right, name))
    if any(not _same(first, other, name) for other in results[1:] for name in first):
        comparison = Comparison.VARIES
    elif not differing:
        comparison = Comparison.RIGHT
    elif capsule.found and all(_same(first, capsule.found, name) for name in capsule.found):
        comparison = Comparison.FOUND
    else:
        errors = _errors(capsule, first, allow=allow)
        comparison = _nearest(errors)
    return Attempt(
        device=device,
        times=len(results),
        comparison=comparison,
        differing=differing,
        errors=errors,
    )


def try_once(
    capsule: Capsule,
    *,
    device: torch.device,
    allow: bool,
    wide: bool = False,
    absolute: bool = False,
) -> dict[str, torch.Tensor]:
    """Return outputs by place and gradients by name, on the CPU.

    Args:
        capsule: The capsule.
        device: Where to compute.
        allow: See `try_capsule`.
        wide: Compute in float64, with autocast off.
        absolute: Give it the absolute values of all numbers.
    """
    look_up = finder(allow=allow)
    moved = partial(_moved, wide=wide, absolute=absolute)
    tensors = [moved(each, device) for each in capsule.tensors]
    module = decode_module(capsule.spec, tensors, look_up)
    args = decode(capsule.args, tensors, look_up)
    kwargs = decode(capsule.kwargs, tensors, look_up)
    settings = capsule.settings
    before = torch.get_rng_state()
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(bool(capsule.seeds)))
            for _, dtype in [] if wide else settings.get("autocast", []):
                name = str(dtype).removeprefix("torch.")
                # Another kind of device casts as its own kind is told to.
                stack.enter_context(torch.autocast(device.type, dtype=getattr(torch, name)))
            if capsule.rng is not None:
                torch.set_rng_state(capsule.rng.clone())
            output = module(*args, **kwargs)
        found = {f"output {n}": t for n, (_, t) in enumerate(tensors_in(output))}
        gradients = _gradients(capsule, module, (args, kwargs), found, moved)
    finally:
        torch.set_rng_state(before)
    return {name: each.detach().cpu() for name, each in (found | gradients).items()}


def _gradients(
    capsule: Capsule,
    module: torch.nn.Module,
    inputs: Any,
    outputs: dict[str, torch.Tensor],
    moved: Callable[[torch.Tensor, torch.device], torch.Tensor],
) -> dict[str, torch.Tensor]:
    seeds = {
        name: moved(each, outputs[name].device)
        for name, each in capsule.seeds.items()
        if name in outputs and outputs[name].requires_grad
    }
    if not seeds:
        return {}
    wanted: dict[str, torch.Tensor] = {
        f"grad of {name}": each for name, each in module.named_parameters()
    }
    wanted |= {f"grad of input {path}": each for path, each in tensors_in(inputs)}
    wanted = {name: each for name, each in wanted.items() if each.requires_grad}
    got = torch.autograd.grad(
        [outputs[name] for name in seeds],
        list(wanted.values()),
        list(seeds.values()),
        allow_unused=True,
    )
    return {name: each for name, each in zip(wanted, got, strict=True) if each is not None}


def _moved(
    tensor: torch.Tensor, device: torch.device, *, wide: bool, absolute: bool
) -> torch.Tensor:
    if wide and tensor.is_floating_point():
        tensor = tensor.double()
    if absolute and tensor.is_floating_point():
        tensor = tensor.detach().abs()
    moved = tensor.detach().to(device)
    return moved.clone() if moved.data_ptr() == tensor.data_ptr() else moved


def _same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], name: str) -> bool:
    first, second = one.get(name), other.get(name)
    if first is None or second is None:
        return False
    if first.shape != second.shape or first.dtype is not second.dtype:
        return False
    if not readable(first):
        return torch.equal(first, second)
    return memory_words([first]) == memory_words([second])


def _errors(capsule: Capsule, here: dict[str, torch.Tensor], *, allow: bool) -> dict[str, float]:
    exact = try_once(capsule, device=torch.device("cpu"), allow=allow, wide=True)
    sides = {"here": here, "right": capsule.right, "found": capsule.found}
    errors: dict[str, float] = {}
    for side, values in sides.items():
        worst = [
            _distance(values[name], exact[name])
            for name in exact
            if name in values and exact[name].is_floating_point()
            and exact[name].shape == values[name].shape
        ]  # fmt: skip
        if worst:
            errors[side] = max(worst)
    return errors


def _distance(value: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest error of an element, relative to the largest exact element."""
    size = exact.abs().max().item() if exact.numel() else 0.0
    off = (value.double() - exact).abs().max().item() if exact.numel() else 0.0
    if math.isnan(off):
        return math.inf
    return off / size if size else off


def _nearest(errors: dict[str, float]) -> Comparison:
    here, right, found = (errors.get(side) for side in ("here", "right", "found"))
    if here is None or right is None or not _alike(here, right):
        if here is not None and found is not None and _alike(here, found):
            return Comparison.NEAR_FOUND
        return Comparison.OTHER
    if found is not None and _alike(here, found):
        return Comparison.OTHER  # All three are as good: only rounding sets them apart.
    return Comparison.NEAR_RIGHT


def _alike(one: float, other: float) -> bool:
    small, large = sorted((one, other))
    return large <= MAX_RATIO * max(small, 1e-300)
