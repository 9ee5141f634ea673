"""The operations that spot checks know: how each is tested, and computed again in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.guard.spot.checksums import CHECKED_DTYPES, LIMIT, product_distance
from everybit.guard.spot.convolutions import sampled_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ATEN: Final = torch.ops.aten
#: Errors beyond so many times the expected rounding are the device's, whatever it repeats.
_SURE: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """C = beta D + alpha A B, as it was asked for."""

    a: torch.Tensor
    b: torch.Tensor
    added: torch.Tensor | None = None
    alpha: float = 1.0
    beta: float = 1.0

    def distance(self, c: torch.Tensor) -> torch.Tensor:
        """Return how far the rows of C are off; what is not below 1 is suspicious."""
        off = product_distance(
            self.a, self.b, c, added=self.added, alpha=self.alpha, beta=self.beta
        )
        return off / LIMIT

    def wrong(self, c: torch.Tensor) -> torch.Tensor | None:
        """Return which elements of C no rounding explains; None where that cannot be told."""
        a, b = self.a.double(), self.b.double()
        if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
            return None
        right = self.alpha * (a @ b)
        size = abs(self.alpha) * (a.abs() @ b.abs())
        if self.added is not None and self.beta != 0:
            right = right + self.beta * self.added.double()
            size = size + abs(self.beta) * self.added.double().abs()
        return _beyond(c, right, size, a.shape[-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convolution:
    """A convolution, as it was asked for."""

    inputs: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    how: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def distance(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return how far sampled outputs are off; what is not below 1 is suspicious."""
        return sampled_distance(
            self.inputs, self.weight, self.bias, outputs, seed=self.seed, **self.how
        )

    def wrong(self, outputs: torch.Tensor) -> torch.Tensor | None:
        """Return which outputs no rounding explains; None where that cannot be told."""
        if not (torch.isfinite(self.inputs).all() and torch.isfinite(self.weight).all()):
            return None

        def computed(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
            how = self.how
            zeros = [0] * len(how["stride"])
            result: torch.Tensor = torch.convolution(
                x, w, bias, how["stride"], how["padding"], how["dilation"], False, zeros,
                how["groups"],
            )  # fmt: skip
            return result

        x, w = self.inputs.double(), self.weight.double()
        bias = None if self.bias is None else self.bias.double()
        size = computed(x.abs(), w.abs(), None if bias is None else bias.abs())
        return _beyond(outputs, computed(x, w, bias), size, self.weight[0].numel())


def _beyond(
    found: torch.Tensor, right: torch.Tensor, size: torch.Tensor, terms: int
) -> torch.Tensor:
    unit = torch.finfo(found.dtype).eps / 2
    inner = unit if found.dtype == torch.float64 else torch.finfo(torch.float32).eps / 2
    bound = _SURE * (inner * max(1, terms) ** 0.5 * size + unit * right.abs())
    fits = right.abs() <= torch.finfo(found.dtype).max  # Else it overflows, and rightly so.
    wrong: torch.Tensor = fits & ~((found.double() - right).abs() <= bound)
    return wrong


def described(func: Any, args: Any, kwargs: Any, seed: int) -> Product | Convolution | None:
    """Return what an operation computes, in the terms of its test; None where there is none."""
    describe = _KNOWN.get(func)
    if describe is None:
        return None
    found = describe(seed, *args, **kwargs)
    if found is None:
        return None
    if isinstance(found, Convolution):
        tensors = (found.inputs, found.weight)
    else:
        tensors = (found.a, found.b)
    for tensor in tensors:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
        if not plain or tensor.layout is not torch.strided or tensor.dtype not in CHECKED_DTYPES:
            return None
    return found if all(tensor.numel() for tensor in tensors) else None


def is_product(func: Any) -> bool:
    """Whether an operation is a product or a convolution, tested or not."""
    return func in _KNOWN or func in _UNTESTED


def _mm(_: int, a: torch.Tensor, b: torch.Tensor, **_rest: Any) -> Product:
    return Product(a=a, b=b)


def _addmm(
    _: int,
    added: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Product:
    return Product(a=a, b=b, added=added, alpha=alpha, beta=beta)


def _linear(
    _: int, a: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> Product:
    return Product(a=a, b=weight.t(), added=bias)


def _matmul(_: int, a: torch.Tensor, b: torch.Tensor) -> Product | None:
    return Product(a=a, b=b) if a.dim() > 1 and b.dim() > 1 else None


def _convolution(
    seed: int,
    inputs: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    _output_padding: list[int],
    groups: int,
) -> Convolution | None:
    spatial = inputs.dim() - 2
    if transposed or spatial < 1:
        return None
    how = {
        "stride": _each(stride, spatial),
        "padding": _each(padding, spatial),
        "dilation": _each(dilation, spatial),
        "groups": groups,
    }
    return Convolution(inputs=inputs, weight=weight, bias=bias, how=how, seed=seed)


def _each(values: list[int], count: int) -> list[int]:
    return list(values) * count if len(values) == 1 else list(values)


_KNOWN: Final[dict[Any, Callable[..., Product | Convolution | None]]] = {
    _ATEN.mm.default: _mm,
    _ATEN.bmm.default: _mm,
    _ATEN.addmm.default: _addmm,
    _ATEN.baddbmm.default: _addmm,
    _ATEN.linear.default: _linear,
    _ATEN.matmul.default: _matmul,
    _ATEN.convolution.default: _convolution,
}
_UNTESTED: Final = frozenset(
    {
        _ATEN.convolution_backward.default,
        _ATEN._scaled_dot_product_flash_attention_for_cpu.default,
        _ATEN._scaled_dot_product_flash_attention_for_cpu_backward.default,
        _ATEN._scaled_dot_product_flash_attention.default,
        _ATEN._scaled_dot_product_efficient_attention.default,
        _ATEN._scaled_dot_product_cudnn_attention.default,
        _ATEN.mv.default,
        _ATEN.addmv.default,
        _ATEN.dot.default,
    }
)
