"""How far a result may lie from the exact one by rounding alone.

A sum of n products computed in any order with unit roundoff u lies within

    gamma(n) |x| . |y|,    gamma(n) = n u / (1 - n u)

of the exact one (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd edition, 2002,
section 3.1). Linear layers and convolutions are such sums, and so are their gradients; `|x| . |y|`
is what the same layer gives for the absolute values of all it is given. Of other parts no such
bound is known: what the CPU itself errs in the same dtype stands for it, as an estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from everybit.guard.capsule.content import Capsule

    Values = Mapping[str, torch.Tensor]

#: Unit roundoff of what is stored.
_UNIT: Final = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
}
#: And of TF32, to which accelerators may round what goes into products of float32.
_TF32: Final = 2.0**-11
#: Partial sums of 16 bits that an accelerator may round before they are added up.
_SPLITS: Final = 16
#: Transforms (Winograd, FFT) are bounded in norm only, by a modest multiple.
_TRANSFORMS: Final = 16
#: In place of a bound: so many times the CPU's own error.
_ESTIMATE: Final = 8.0
_LINEAR: Final = "torch.nn.modules.linear:Linear"
_CONVOLUTIONS: Final = {f"torch.nn.modules.conv:Conv{n}d": n for n in (1, 2, 3)}


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """How far each result may be off.

    Attributes:
        exact: The exact results, float64 on the CPU.
        of: The largest distance of each element, or of all of them (0-d), float64.
        proven: They are bounds; else estimates.
        how: In words.
    """

    exact: Values
    of: Values
    proven: bool
    how: str

    def excess(self, values: Values) -> float | None:
        """Return the largest distance in multiples of what is allowed; None with none known.

        Args:
            values: Results by the same names, on the CPU.
        """
        worst: float | None = None
        for name, bound in self.of.items():
            if name not in values or values[name].shape != self.exact[name].shape:
                continue
            off = (values[name].double() - self.exact[name]).abs()
            if not off.numel():
                continue
            ratio = torch.where(off == 0, 0.0, off / bound.clamp_min(1e-300)).max().item()
            worst = max(worst or 0.0, math.inf if math.isnan(ratio) else ratio)
        return worst


def bounds_of(
    capsule: Capsule, compute: Callable[..., dict[str, torch.Tensor]], *, tf32: bool = False
) -> Bounds:
    """Return how far a capsule's results may be off, wherever they are computed.

    Args:
        capsule: The capsule.
        compute: Computes it on the CPU: with `wide=True` in float64, with `absolute=True` on
            absolute values, else as it was.
        tf32: Products of float32 may be computed with inputs rounded to TF32.
    """
    exact = {k: v for k, v in compute(wide=True).items() if v.is_floating_point()}
    lengths = _lengths(capsule, exact)
    if lengths and not capsule.settings.get("autocast"):
        sizes = compute(wide=True, absolute=True)
        norm = capsule.spec["class"] in _CONVOLUTIONS
        return Bounds(
            exact=exact,
            of={
                name: _of_sum(sizes[name], lengths[name], _dtype(capsule, name), tf32, norm)
                for name in exact
                if name in lengths
            },
            proven=True,
            how="float64 on the CPU, within the bound of a sum's rounding",
        )
    here = compute()
    of = {}
    for name, right in exact.items():
        if name in here and here[name].shape == right.shape and right.numel():
            unit = _TF32 if tf32 else _UNIT.get(here[name].dtype, 2.0**-24)
            own = (here[name].double() - right).abs().max()
            of[name] = _ESTIMATE * torch.maximum(own, unit * right.abs().max())
    return Bounds(
        exact=exact, of=of, proven=False, how="float64 on the CPU, within 8 times the CPU's error"
    )


def gamma(length: int, unit: float) -> float:
    """Return `n u / (1 - n u)`; infinite where that is no bound any more.

    >>> gamma(2, 0.25)
    1.0
    """
    product = length * unit
    return product / (1 - product) if product < 1 else math.inf


def _of_sum(
    size: torch.Tensor, length: int, dtype: torch.dtype, tf32: bool, norm: bool
) -> torch.Tensor:
    """Return the bound of a sum.

    Args:
        size: The same sum of absolute values, float64.
        length: Its number of products, a bias included.
        dtype: Of the result.
        tf32: Inputs may have been rounded to TF32.
        norm: Bounded in norm only.
    """
    unit = _UNIT.get(dtype, 2.0**-24)
    if dtype in (torch.bfloat16, torch.float16):
        factor = gamma(length, 2.0**-24) + (_SPLITS + 1) * unit
    else:
        factor = gamma(length + 1, unit)
        if tf32 and dtype is torch.float32:
            factor += 2 * _TF32 + _TF32**2
    if norm and size.numel():
        return factor * _TRANSFORMS * size.max()
    return factor * size


def _lengths(capsule: Capsule, exact: Values) -> dict[str, int]:
    """Return the number of products in each element of each result; none where not known."""
    kind = str(capsule.spec["class"])
    places = capsule.spec["parameters"].get("weight")
    if (kind != _LINEAR and kind not in _CONVOLUTIONS) or places is None or places[0] is None:
        return {}
    weight = capsule.tensors[places[0]]
    output = exact.get("output 0")
    if output is None or not output.numel():
        return {}
    groups = int(_attribute(capsule, "groups", 1))
    inputs = weight[0].numel()  # Of one output: in_features, or in_channels / groups * kernel.
    kernel = weight[0, 0].numel() if weight.dim() > 2 else 1
    backward = weight.shape[0] // groups * kernel
    channels = max(1, weight.shape[0])
    rows = max(1, output.numel() // channels)
    found = {"output 0": inputs + 1, "grad of weight": rows, "grad of bias": rows}
    found |= {name: backward for name in exact if name.startswith("grad of input")}
    return {name: length for name, length in found.items() if name in exact}


def _attribute(capsule: Capsule, name: str, default: Any) -> Any:
    return capsule.spec["attributes"].get(name, {}).get("value", default)


def _dtype(capsule: Capsule, name: str) -> torch.dtype:
    value = capsule.right.get(name)
    return torch.float32 if value is None else value.dtype
