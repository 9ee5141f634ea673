"""Floating formats as bit patterns: what the senses and the judges of values need of each.

Magnitudes of a sign-and-magnitude float sort like their bit patterns, so a maximum over integers is
a maximum over magnitudes, at the speed of memory and deaf to NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from everybit.files.tensor import FileTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatKind:
    """One floating format.

    Attributes:
        name: Canonical dtype name of one component.
        itemsize: Bytes a component.
        first_bad: The smallest magnitude pattern that is not finite; 0 where `bad` tells instead.
        infinity: Pattern of infinity; 0 without one.
        shift: Bits below the exponent.
        bias: Exponent pattern of values from 1 to 2.
        gap: Octaves between an element and all others from which on it is implausible; 0 where
            the format is too narrow to tell.
        bad: The one pattern that is not finite, sign included; -1 where `first_bad` tells.
    """

    name: str
    itemsize: int
    first_bad: int
    infinity: int = 0
    shift: int = 0
    bias: int = 0
    gap: int = 0
    bad: int = -1

    @property
    def unsigned(self) -> str:
        """NumPy's name of the bit patterns."""
        return f"u{self.itemsize}"

    @property
    def signed(self) -> str:
        """NumPy's name of the patterns as signed integers."""
        return f"i{self.itemsize}"

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (8 * self.itemsize - 1)

    @property
    def top(self) -> int:
        """The highest exponent bit: set in values of 2 and more, and in those not finite."""
        return self.sign >> 1

    @property
    def wide(self) -> int:
        """Octaves between neighbours that deserve exact work."""
        return self.gap // 2


# The gaps follow from the formats. A flip of the highest exponent bit multiplies by 2^128 (float32,
# bfloat16), 2^1024 (float64) or 2^16 (float16); flips of the others give what weights can hold.
KINDS: Final = {
    kind.name: kind
    for kind in (
        FloatKind(
            name="float64", itemsize=8, first_bad=0x7FF << 52, infinity=0x7FF << 52,
            shift=52, bias=1023, gap=100,
        ),
        FloatKind(
            name="float32", itemsize=4, first_bad=0x7F800000, infinity=0x7F800000,
            shift=23, bias=127, gap=40,
        ),
        FloatKind(
            name="bfloat16", itemsize=2, first_bad=0x7F80, infinity=0x7F80,
            shift=7, bias=127, gap=40,
        ),
        FloatKind(
            name="float16", itemsize=2, first_bad=0x7C00, infinity=0x7C00,
            shift=10, bias=15, gap=10,
        ),
        FloatKind(name="float8_e5m2", itemsize=1, first_bad=0x7C, infinity=0x7C),
        FloatKind(name="float8_e4m3fn", itemsize=1, first_bad=0x7F),
        FloatKind(name="float8_e4m3fnuz", itemsize=1, first_bad=0, bad=0x80),
        FloatKind(name="float8_e5m2fnuz", itemsize=1, first_bad=0, bad=0x80),
        FloatKind(name="float8_e8m0fnu", itemsize=1, first_bad=0, bad=0xFF),
    )
}  # fmt: skip

_COMPONENTS: Final = {
    "complex32": "float16",
    "complex64": "float32",
    "complex128": "float64",
}


def kind_of(tensor: FileTensor) -> FloatKind | None:
    """Return the format of a tensor's elements, or of their real and imaginary parts."""
    return KINDS.get(_COMPONENTS.get(tensor.dtype, tensor.dtype))


def are_bad(patterns: Any, kind: FloatKind) -> Any:
    """Return where patterns (unsigned array) are not finite, as an array of bool."""
    if kind.bad >= 0:
        return patterns == kind.bad
    return (patterns & (kind.sign - 1)) >= kind.first_bad


def are_infinite(patterns: Any, kind: FloatKind) -> Any:
    """Return where patterns are infinite, as an array of bool."""
    import numpy as np

    if not kind.infinity:
        return np.zeros(len(patterns), dtype=bool)
    return (patterns & (kind.sign - 1)) == kind.infinity
