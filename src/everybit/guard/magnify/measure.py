"""One operation computed again from the same inputs: by other threads and kernels, in float64.

What a right result may differ by is not assumed: it is measured, on this operation and its inputs.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only

from everybit.guard.magnify.recorder import written_by
from everybit.guard.magnify.settings import read_settings, under

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.guard.magnify.held import Held

_THREADS: Final = (1, 2, 4)
_WIDE: Final = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}
_AS_INTEGERS: Final = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}
#: Elements told one by one.
_TOLD: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How far a result is from the float64 one: L2 of the difference, and the largest of any."""

    length: float
    largest: float


def distance(a: torch.Tensor, b: torch.Tensor) -> dict[str, Any]:
    """Return how two tensors of one dtype and shape differ, JSON-ready."""
    a, b = a.detach().cpu().contiguous().reshape(-1), b.detach().cpu().contiguous().reshape(-1)
    told: dict[str, Any] = {"num_elements": a.numel()}
    if a.dtype != b.dtype or a.shape != b.shape:
        return told
    differ = _bits(a) != _bits(b)
    places = differ.nonzero().reshape(-1)
    told |= {"num_differing": int(places.numel()), "elements": places[:_TOLD].tolist()}
    if not places.numel():
        return told
    first = int(places[0])
    if not a.dtype.is_complex:
        told |= {"value_a": float(a[first]), "value_b": float(b[first])}
    wide_a, wide_b = _widened(a), _widened(b)
    gap = wide_a - wide_b
    size = float(wide_a.norm())
    told["relative"] = float(gap.norm()) / size if size else math.inf
    told["max_abs"] = float(gap.abs().max())
    if a.dtype in _AS_INTEGERS:
        told["max_ulp"] = int((_ordered(a)[places] - _ordered(b)[places]).abs().max())
    return told


def in_memory_order(tensor: torch.Tensor) -> torch.Tensor:
    """Return a transposed tensor as it lies: operations read weights so, and elements are theirs.

    >>> in_memory_order(torch.arange(6).reshape(2, 3).t()).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    if tensor.is_contiguous():
        return tensor
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda dim: -strides[dim])
    return tensor.permute(order)


def measure(
    held: Held, other: Sequence[torch.Tensor], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Compare A's result of an operation with B's, and both with results that are right.

    Args:
        held: What A's operation read and gave.
        other: What B's gave.
        settings: B's settings.

    Returns:
        JSON-ready facts: those of `distance`, `place`, `repeats`, `explained`, `band`,
        `band_source`, `ratio`, `ratio_largest`; what could not be measured is left out.
    """
    pairs = list(zip(held.given, other, strict=False))
    place = next((at for at, pair in enumerate(pairs) if not _same(*pair)), None)
    if place is None:
        return {}
    mine, theirs = pairs[place]
    told = {"place": place, **distance(mine, theirs)}
    if held.func is None:
        return told
    here = read_settings()
    again = [_result(held, place, here) for _ in range(2)]
    told["repeats"] = all(result is not None and _same(result, mine) for result in again)
    if dict(settings) != here:
        as_theirs = _result(held, place, settings)
        told["explained"] = as_theirs is not None and _same(as_theirs, theirs)
    right: dict[str, torch.Tensor | None] = {"these threads": mine}
    for count in sorted({*_THREADS, here["threads"], settings.get("threads", 1)}):
        right[f"{count} threads"] = _result(held, place, {"threads": count})
    right["no oneDNN"] = _result(held, place, {"mkldnn": False})
    known = {name: value for name, value in right.items() if value is not None}
    size = float(_widened(mine).norm())
    if size and math.isfinite(size):
        gaps = [float((_widened(value) - _widened(mine)).norm()) / size for value in known.values()]
        told["band"] = max(gaps)
        told["band_source"] = f"the same operation by {', '.join(list(known)[1:])}"
    exact = _result(held, place, here, wide=True)
    if exact is None or exact.shape != mine.shape:
        return told
    errors = [_errors(value, exact) for value in known.values()]
    suspected = _errors(theirs, exact)
    told["ratio"] = _over(suspected.length, [each.length for each in errors])
    told["ratio_largest"] = _over(suspected.largest, [each.largest for each in errors])
    return told


def _result(
    held: Held, place: int, settings: Mapping[str, Any], *, wide: bool = False
) -> torch.Tensor | None:
    """Return what the operation gives at a place; None where it cannot be computed so."""
    with suppress(RuntimeError, NotImplementedError, TypeError, IndexError), under(settings):
        args, kwargs = tree_map_only(torch.Tensor, torch.Tensor.clone, (held.args, held.kwargs))
        if wide:
            args, kwargs = tree_map(_wide_leaf, (args, kwargs))
        before = torch.get_rng_state()
        try:
            if held.random is not None:
                torch.set_rng_state(held.random.clone())
            with torch.no_grad():
                result = held.func(*args, **kwargs)
        finally:
            torch.set_rng_state(before.clone())
        given = tree_flatten(result)[0]
        if held.func._schema.is_mutable:
            given += tree_flatten(written_by(held.func, args, kwargs))[0]
        given = [leaf for leaf in given if isinstance(leaf, torch.Tensor)]
        found: torch.Tensor = given[place].detach().clone()
        return found
    return None


def _wide_leaf(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.to(_WIDE[leaf.dtype]) if leaf.dtype in _WIDE else leaf
    return _WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf


def _errors(value: torch.Tensor, exact: torch.Tensor) -> Errors:
    gap = (_widened(value) - _widened(exact)).reshape(-1)
    if not gap.numel():
        return Errors(length=0.0, largest=0.0)
    return Errors(length=float(gap.norm()), largest=float(gap.abs().max()))


def _over(suspected: float, right: Sequence[float]) -> float:
    """Return the suspected error over the largest of right results; infinite where that is none."""
    most = max(right)
    if not math.isfinite(suspected):
        return math.inf
    if most:
        return suspected / most
    return math.inf if suspected else 1.0


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.complex128 if tensor.dtype.is_complex else torch.float64
    return tensor.detach().cpu().to(wide).reshape(-1)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(torch.equal(_bits(a.cpu().contiguous()), _bits(b.cpu().contiguous())))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    integer = _AS_INTEGERS.get(tensor.dtype)
    if integer is not None:
        return tensor.reshape(-1).view(integer)
    if tensor.dtype.is_complex:
        return (
            torch.view_as_real(tensor.reshape(-1).resolve_conj())
            .view(torch.int64 if tensor.dtype == torch.complex128 else torch.int32)
            .sum(-1)
        )
    return tensor.reshape(-1)


def _ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Return the places of floating point numbers in their order, as int64."""
    raw = _bits(tensor).to(torch.int64)
    low = -(1 << (8 * tensor.element_size() - 1))
    return torch.where(raw < 0, low - raw, raw)
