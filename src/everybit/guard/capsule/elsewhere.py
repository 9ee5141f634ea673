"""What another device says of a failing part: it computes the part too, and is compared."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import torch

from everybit.core.mismatch import Opinion
from everybit.guard.capsule.bound import bounds_of
from everybit.guard.capsule.trying import Comparison, try_capsule, try_once

if TYPE_CHECKING:
    from everybit.guard.capsule.content import Capsule
    from everybit.guard.capsule.trying import Attempt

_EXACT = (Comparison.RIGHT, Comparison.FOUND)
_HOW = {
    Comparison.RIGHT: "every bit is what the repeats gave",
    Comparison.FOUND: "every bit is what came first",
    Comparison.NEAR_RIGHT: "within rounding of what the repeats gave, by float64",
    Comparison.NEAR_FOUND: "within rounding of what came first, by float64",
    Comparison.OTHER: "neither result, and float64 does not tell the two apart",
    Comparison.VARIES: "another result each time",
}


class Executor(Protocol):
    """Computes a capsule on a device; `try_once` with one of this process's."""

    def __call__(
        self, capsule: Capsule, *, wide: bool = False, absolute: bool = False
    ) -> dict[str, torch.Tensor]:
        """Return outputs by place and gradients by name, on the CPU."""
        ...


def on_cpu(
    capsule: Capsule, *, wide: bool = False, absolute: bool = False
) -> dict[str, torch.Tensor]:
    """Compute a capsule on the CPU; the classes it names are this program's own."""
    cpu = torch.device("cpu")
    return try_once(capsule, device=cpu, allow=True, wide=wide, absolute=absolute)


def ask_cpu(capsule: Capsule, execute: Executor = on_cpu) -> Opinion:
    """Compute a part that failed on an accelerator on the CPU, and say who may be right.

    Args:
        capsule: The part, with what came first and what the repeats gave.
        execute: Computes it.

    Raises:
        Exception: Whatever the part raises there.
    """
    bounds = bounds_of(capsule, partial(execute, capsule), tf32=_is_tf32(capsule))
    repeats, first = bounds.excess(capsule.right), bounds.excess(capsule.found)
    told = f"{bounds.how}; the repeats lie at {_times(repeats)} of it, the first at {_times(first)}"
    return Opinion(
        device="the CPU",
        first=None if first is None else first <= 1,
        repeats=None if repeats is None else repeats <= 1,
        proven=bounds.proven,
        how=told,
    )


def opinion_of(attempt: Attempt, device: str) -> Opinion:
    """Return what an attempt on another device of the same kind says.

    Args:
        attempt: The attempt.
        device: Which one, in words.
    """
    comparison = attempt.comparison
    sides = {
        Comparison.RIGHT: (False, True),
        Comparison.NEAR_RIGHT: (False, True),
        Comparison.FOUND: (True, False),
        Comparison.NEAR_FOUND: (True, False),
    }
    first, repeats = sides.get(comparison, (None, None))
    return Opinion(
        device=device,
        first=first,
        repeats=repeats,
        proven=comparison in _EXACT,
        how=_HOW[comparison],
        exact=comparison in _EXACT,
    )


def ask_here(capsule: Capsule, *, device: str, name: str) -> Opinion:
    """Compute another rank's part on this rank's own device.

    Args:
        capsule: The part.
        device: As torch names it.
        name: In words.
    """
    return opinion_of(try_capsule(capsule, device=device, times=2, allow=True), name)


def _is_tf32(capsule: Capsule) -> bool:
    """Whether its device may have rounded what goes into products of float32 to TF32."""
    if not str(capsule.facts.get("device", "")).startswith("cuda"):
        return False
    kind = str(capsule.spec["class"])
    products = bool(capsule.settings.get("precision", "highest") != "highest")
    convolutions = bool(torch._C._get_cudnn_allow_tf32())
    if kind.endswith(":Linear"):
        return products
    # Parts of several layers may have some of each.
    return convolutions if ":Conv" in kind else products or convolutions


def _times(excess: float | None) -> str:
    return "an unknown part" if excess is None else f"{excess:.3g} times"
