"""Was one tensor made from the other by rounding to a narrower dtype: exact tests, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

#: dtype: mantissa bits, exponent of the smallest normal number, largest finite value.
_FORMATS: Final[dict[str, tuple[int, int, float]]] = {
    "float32": (23, -126, 3.4028234663852886e38),
    "float16": (10, -14, 65504.0),
    "bfloat16": (7, -126, 3.3895313892515355e38),
    "float8_e4m3fn": (3, -6, 448.0),
    "float8_e5m2": (2, -14, 57344.0),
}
#: The dtypes that values of a dtype may have passed through on a round trip.
_THROUGH: Final[dict[str, tuple[str, ...]]] = {
    "float64": ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"),
    "float32": ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"),
    "float16": ("bfloat16", "float8_e4m3fn", "float8_e5m2"),
    "bfloat16": ("float16", "float8_e4m3fn", "float8_e5m2"),
}
_SAMPLE: Final = 4096
#: Elements that a supposition need not account for, and how many that differ it does for each.
_MAX_EXCEPTIONS: Final = 16
_FOR_EACH: Final = 64


@dataclass(slots=True, kw_only=True)
class Rounding:
    """The supposition that one side is the other, rounded to `target` (and back).

    Attributes:
        target: The dtype that values were rounded to.
        source: `A` or `B`: the side that was rounded; the other one is the result.
        truncated: Low bits were cut off, not rounded to nearest even.
        num_overflowed: Finite values that became infinite or NaN.
        num_saturated: Values beyond the target's range that became its largest.
        exceptions: `(element, A's value, B's value)` of the few that it does not account for.
    """

    target: str
    source: str = "A"
    truncated: bool = False
    num_overflowed: int = 0
    num_saturated: int = 0
    exceptions: list[tuple[int, float, float]] = field(default_factory=list)

    def holds(self, a: Any, b: Any, first: int = 0) -> bool:
        """Return whether the next elements bear the supposition out, and count what overflows.

        A few may be exceptions: what was rounded may have been damaged afterwards.

        Args:
            a: A's values.
            b: B's values.
            first: Flat index of the first of them.
        """
        one, other = (a, b) if self.source == "A" else (b, a)
        if len(one) > _SAMPLE and self._test(one[:_SAMPLE], other[:_SAMPLE], count=False) is None:
            return False
        wrong = self._test(one, other, count=True)
        if wrong is None:
            return False
        self.exceptions += [(int(at) + first, float(a[at]), float(b[at])) for at in wrong]
        return True

    def borne_out(self, num_elements: int) -> bool:
        """Return whether so few of the elements that differ are exceptions that it stands."""
        return len(self.exceptions) * _FOR_EACH <= num_elements

    def _test(self, exact: Any, found: Any, *, count: bool) -> Any:
        """Return the places of the exceptions, None where they are too many."""
        import numpy as np

        rounded = round_to(self.target, exact, truncate=self.truncated)
        largest = _FORMATS[self.target][2]
        fits = (rounded == found) | (np.isnan(exact) & np.isnan(found))
        if fits.all():
            return ()
        with np.errstate(invalid="ignore"):
            beyond = np.isfinite(exact) & (np.abs(rounded) > largest)
            infinite = np.isinf(exact) & (~np.isfinite(found) | (np.abs(found) == largest))
        lost = beyond & ~np.isfinite(found)
        saturated = beyond & (np.abs(found) == largest)
        wrong = np.flatnonzero(~(fits | lost | saturated | infinite))
        if len(wrong) + len(self.exceptions) > _MAX_EXCEPTIONS:
            return None
        if count:
            self.num_overflowed += int(lost.sum())
            self.num_saturated += int(saturated.sum())
        return wrong


def round_to(dtype: str, values: Any, *, truncate: bool = False) -> Any:
    """Return float64 values rounded to the nearest of a dtype, ties to even.

    What lies beyond the largest finite value is left there, so that it can be told.

    >>> import numpy as np
    >>> round_to("bfloat16", np.array([1.005, -3e-40])).tolist()
    [1.0078125, -2.7550648847397363e-40]
    """
    import numpy as np

    if not truncate and dtype in ("float16", "bfloat16"):
        narrow = _by_casting(dtype, values)
        if narrow is not None:
            return narrow
    mantissa, smallest, _ = _FORMATS[dtype]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        _, exponent = np.frexp(values)
        step = np.maximum(exponent - 1, smallest) - mantissa
        scaled = np.ldexp(values, -step)
        whole = np.trunc(scaled) if truncate else np.rint(scaled)
        return np.ldexp(whole, step)


def _by_casting(dtype: str, values: Any) -> Any:
    """Return the same for values that float32 holds, many times as fast; None for others."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        single = values.astype(np.float32)
        if not ((single == values) | np.isnan(values)).all():
            return None
        if dtype == "float16":
            found = single.astype(np.float16).astype(np.float64)
        else:
            bits = single.view(np.uint32)
            odd = (bits >> np.uint32(16)) & np.uint32(1)
            # A NaN's bits would carry over into others; a NaN stays what it is.
            carried = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
            found = np.where(np.isnan(single), single, carried.view(np.float32)).astype(np.float64)
        beyond = np.isinf(found) & np.isfinite(values)
        if beyond.any():
            found[beyond] = np.copysign(2.0 * _FORMATS[dtype][2], values[beyond])
    return found


def suppositions(dtype_a: str, dtype_b: str) -> list[Rounding]:
    """Return what may set two tensors of these dtypes apart by rounding alone."""
    if dtype_a == dtype_b:
        through = _THROUGH.get(dtype_a, ())
        both = [Rounding(target=t, source=side) for side in "AB" for t in through]
        cut = [
            Rounding(target="bfloat16", source=side, truncated=True)
            for side in "AB"
            if "bfloat16" in through
        ]
        return both + cut
    found = []
    for source, wide, narrow in (("A", dtype_a, dtype_b), ("B", dtype_b, dtype_a)):
        if narrow in _FORMATS and wide in _THROUGH:
            found.append(Rounding(target=narrow, source=source))
            if narrow == "bfloat16":
                found.append(Rounding(target=narrow, source=source, truncated=True))
    return found
