"""How two stored tensors of one shape differ, in one streaming pass over both.

Equal chunks are read and compared as bytes. In a chunk that differs, all of its elements are
decoded: sums for the size and direction of the difference, values that stand out, and every
supposition (rounded, scaled) that the elements seen so far bear out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import ITEMSIZE
from everybit.diff.elements import Changed, ElementTally
from everybit.diff.leaps import Leap, Leaps
from everybit.diff.rounding import Rounding, suppositions
from everybit.diff.scale import Scale, picked, product
from everybit.diff.stored import CHUNK_BYTES, SideBySide
from everybit.diff.values import MANTISSA_BITS, as_numbers, as_places, has_values, is_float

if TYPE_CHECKING:
    from collections.abc import Collection

    from everybit.diff.stored import StoredTensor

#: Parts of a tensor for which it is noted whether anything differs in them.
NUM_BLOCKS: Final = 64
#: Differing elements of a chunk whose distance in ULP is taken.
_SAMPLED: Final = 16384
#: Of the largest value's last place: more is no rounding.
_TINY_ULP: Final = 64.0
#: Wild values are few where so many times their number differ.
_FEW: Final = 4
#: Wild values kept.
NUM_LISTED: Final = 16
#: A value this many times the largest around it in A is wild.
_WILD: Final = 32.0
#: Powers of two of the distance in ULP that are counted apart.
_NUM_OCTAVES: Final = 66


@dataclass(slots=True, kw_only=True)
class Measured:
    """What a pass over two tensors gave.

    Sums go over the elements that differ, where A's and B's values are finite and not wild.

    Attributes:
        total: Elements of the tensor.
        eps: Relative distance of neighbouring values; 0 for integers.
        changed: Which elements differ, bit by bit; None where the dtypes differ.
        num_elements: How many differ, by bits or (other dtypes) by value.
        sum_aa: Sum of A's squares.
        sum_bb: Sum of B's squares.
        sum_ab: Sum of the products.
        sum_dd: Sum of the squared differences.
        max_abs: Largest absolute difference.
        max_tame: The same without the wild ones.
        max_rel: Largest difference relative to A's value, over nonzero ones.
        max_a: Largest finite magnitude in A, in the chunks that differ.
        least_b: Least finite value among B's differing elements.
        max_ulp: Largest distance in units of the last place, of those that were looked at.
        sampled: Not all were.
        octaves: Differing elements by the power of two of that distance.
        wild: `(element, A's value, B's value)` of the first values of B that are not finite, or
            many times as large as any around them in A; no sum goes over these.
        num_wild: How many there are.
        num_zeroed: Differing elements whose bits are all zero in B.
        num_negated: Differing elements whose sign bit alone differs.
        num_lost: Elements finite in A and not in B.
        num_found: Elements finite in B and not in A.
        blocks: Which of `NUM_BLOCKS` parts differ.
        same_bag: Whether both may hold the same elements in another order.
        factor: B is A times this; None where it is not.
        roundings: What every element bears out.
        equal_values: All values are equal as numbers.
        leaps: Elements that one flipped bit sets apart from all others that moved; they are among
            the wild ones.
    """

    total: int
    eps: float = 0.0
    changed: Changed | None = None
    num_elements: int = 0
    sum_aa: float = 0.0
    sum_bb: float = 0.0
    sum_ab: float = 0.0
    sum_dd: float = 0.0
    max_abs: float = 0.0
    max_tame: float = 0.0
    max_rel: float = 0.0
    max_a: float = 0.0
    least_b: float = math.inf
    max_ulp: float = 0.0
    sampled: bool = False
    octaves: list[int] = field(default_factory=lambda: [0] * _NUM_OCTAVES)
    wild: list[tuple[int, float, float]] = field(default_factory=list)
    num_wild: int = 0
    num_zeroed: int = 0
    num_negated: int = 0
    num_lost: int = 0
    num_found: int = 0
    blocks: set[int] = field(default_factory=set)
    same_bag: bool = False
    factor: float | None = None
    roundings: list[Rounding] = field(default_factory=list)
    equal_values: bool = False
    leaps: list[Leap] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Share of the elements that differ."""
        return self.num_elements / max(self.total, 1)

    @property
    def relative(self) -> float:
        """L2 norm of the difference over that of A, over the elements that differ."""
        return math.sqrt(self.sum_dd / self.sum_aa) if self.sum_aa > 0 else math.inf

    @property
    def widest(self) -> float:
        """The largest absolute difference; infinite where a finite value is not finite in B."""
        return math.inf if self.num_lost else self.max_abs

    @property
    def cosine(self) -> float:
        """Cosine of the angle between A and B, over the elements that differ."""
        norm = math.sqrt(self.sum_aa) * math.sqrt(self.sum_bb)
        return self.sum_ab / norm if norm > 0 else 0.0

    @property
    def tiny(self) -> bool:
        """Whether no change is more than rounding of the largest values around it could make."""
        return self.tiny_beside_wild and not self.num_wild

    @property
    def tiny_beside_wild(self) -> bool:
        """The same of the values that are not wild."""
        return 0 < self.max_tame <= _TINY_ULP * self.eps * self.max_a

    @property
    def stands_out(self) -> bool:
        """Whether values of B are not finite, or a few are far outside what A holds."""
        # Where the rest has changed as much, the whole has grown, as what began near zero does.
        few = 0 < _FEW * self.num_wild <= self.num_elements
        return self.num_lost > 0 or (few and self.relative <= 2)

    @property
    def median_ulp(self) -> float:
        """Median distance of the differing elements, up to a factor of two, in ULP."""
        half, seen = sum(self.octaves) / 2, 0
        for power, count in enumerate(self.octaves):
            seen += count
            if seen >= half and seen:
                return 2.0**power
        return 0.0


def measure(a: StoredTensor, b: StoredTensor) -> Measured:
    """Compare two tensors of one shape; holds a chunk of each.

    Of one dtype they are compared bit by bit, of two dtypes value by value.
    """
    if a.dtype != b.dtype:
        return _across(a, b)
    out = _same_dtype(a, b)
    if out.leaps and not out.roundings:
        # They outweigh all else in every sum: once more, without them.
        leaps = out.leaps
        out = _same_dtype(a, b, {leap.element for leap in leaps})
        out.leaps = leaps
        out.num_wild += len(leaps)
        wild = [*((leap.element, leap.before, leap.after) for leap in leaps), *out.wild]
        out.wild = sorted(wild)[:NUM_LISTED]
        out.max_abs = max(out.max_abs, *(abs(leap.after - leap.before) for leap in leaps))
    return out


def _same_dtype(
    a: StoredTensor, b: StoredTensor, left_out: Collection[int] = frozenset()
) -> Measured:
    import numpy as np

    size = a.itemsize
    tally = ElementTally(a.dtype, size)
    out = Measured(total=a.num_elements, eps=_eps(a.dtype))
    scale = Scale(a.dtype)
    bags = [np.zeros(1, np.uint64), np.zeros(1, np.uint64)]
    live = suppositions(a.dtype, b.dtype) if is_float(a.dtype) else []
    leaps = Leaps(a.dtype)
    for start, one, other in SideBySide(a, b).differing():
        at = tally.add(start, one, other)
        first = start // size
        if left_out:
            at = at[~np.isin(at, [element - first for element in left_out])]
            if not len(at):
                continue
        out.num_elements += len(at)
        out.blocks |= _blocks_of(at, first, out.total)
        _count_bits(out, one, other, size, at, signed=is_float(a.dtype))
        for bag, raw in zip(bags, (one, other), strict=True):
            bag += _bag(raw, size)
        if not has_values(a.dtype):
            continue
        x, y = as_numbers(a.dtype, one), as_numbers(b.dtype, other)
        _add_values(out, x, y, at, first, None if left_out else leaps)
        if is_float(a.dtype):
            _add_places(out, a.dtype, one, other, at)
        live = [each for each in live if each.holds(x, y, first)]
        scale.add(x, y, at)
    out.changed = tally.result()
    out.same_bag = out.num_elements > 1 and bool((bags[0] == bags[1]).all())
    out.factor = scale.result()
    out.roundings = _borne_out(live, out.num_elements)
    out.leaps = leaps.found(out.num_elements)
    return out


def _borne_out(live: list[Rounding], num_elements: int) -> list[Rounding]:
    stand = [each for each in live if num_elements and each.borne_out(num_elements)]
    return sorted(stand, key=lambda each: len(each.exceptions))


def _across(a: StoredTensor, b: StoredTensor) -> Measured:
    import numpy as np

    out = Measured(total=a.num_elements, equal_values=True)
    live = suppositions(a.dtype, b.dtype)
    scale = Scale(min((a.dtype, b.dtype), key=lambda name: MANTISSA_BITS.get(name, 64)))
    step = CHUNK_BYTES // 16
    for first in range(0, out.total, step):
        last = min(first + step, out.total)
        x = as_numbers(a.dtype, a.read(first * a.itemsize, last * a.itemsize))
        y = as_numbers(b.dtype, b.read(first * b.itemsize, last * b.itemsize))
        differ = ~((x == y) | (np.isnan(x) & np.isnan(y)))
        live = [each for each in live if each.holds(x, y, first)]
        if not differ.any():
            continue
        out.equal_values = False
        at = np.flatnonzero(differ)
        out.num_elements += len(at)
        out.blocks |= _blocks_of(at, first, out.total)
        out.num_zeroed += int((y[at] == 0).sum())
        _add_values(out, x, y, at, first)
        scale.add(x, y, at)
    out.factor = scale.result()
    # Elements that rounding left as they were bear it out as well.
    out.roundings = _borne_out(live, out.total)
    return out


def _eps(dtype: str) -> float:
    return 2.0 ** -MANTISSA_BITS[dtype] if is_float(dtype) else 0.0


def _blocks_of(at: Any, first: int, total: int) -> set[int]:
    """Return the blocks of the whole tensor in which the elements lie."""
    import numpy as np

    low = (int(at[0]) + first) * NUM_BLOCKS // total
    high = (int(at[-1]) + first) * NUM_BLOCKS // total
    bounds = [-(-block * total // NUM_BLOCKS) - first for block in range(low, high + 2)]
    counts = np.searchsorted(at, bounds)
    return {low + place for place in np.flatnonzero(np.diff(counts)).tolist()}


def _count_bits(
    out: Measured, one: bytes, other: bytes, size: int, at: Any, *, signed: bool
) -> None:
    import numpy as np

    if size not in (1, 2, 4, 8):
        out.num_zeroed += int((~np.frombuffer(other, np.uint8).reshape(-1, size)[at].any(1)).sum())
        return
    left, right = (picked(np.frombuffer(raw, f"<u{size}"), at) for raw in (one, other))
    out.num_zeroed += len(at) - int(np.count_nonzero(right))
    # Once one element is more than negated, nobody asks how many are.
    if signed and out.num_negated == out.num_elements - len(at):
        sign = left.dtype.type(1 << (8 * size - 1))
        out.num_negated += int(np.count_nonzero((left ^ right) == sign))


def _bag(raw: bytes, size: int) -> Any:
    """Return a sum over the elements that does not depend on their order, modulo 2^64."""
    import numpy as np

    width = size if size in (1, 2, 4, 8) else 8 if size % 8 == 0 else 1
    return np.frombuffer(raw, f"<u{width}").sum(dtype=np.uint64)


def _add_values(
    out: Measured, x: Any, y: Any, at: Any, first: int, leaps: Leaps | None = None
) -> None:
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        size = np.abs(x)
        limit = float(size.max())
        if not math.isfinite(limit):
            inside = size[np.isfinite(size)]
            limit = float(inside.max()) if len(inside) else 0.0
        out.max_a = max(out.max_a, limit)
        one, other, size = picked(x, at), picked(y, at), picked(size, at)
        change = np.abs(other - one)
        top = float(change.max())
        if not math.isfinite(top) or (limit > 0 and top > (_WILD - 1) * limit):
            one, other, change, at = _without_wild(out, one, other, change, at, limit, first)
            size = np.abs(one)
        else:
            out.max_abs = max(out.max_abs, top)
        if not len(one):
            return
        if leaps is not None:
            leaps.add(at, one, other, change, first)
        np.divide(change, size, out=size)
    largest = float(size.max())
    if not math.isfinite(largest):
        finite = size[np.isfinite(size)]
        largest = float(finite.max()) if len(finite) else 0.0
    out.max_rel = max(out.max_rel, largest)
    out.sum_aa += product(one, one)
    out.sum_bb += product(other, other)
    out.sum_ab += product(one, other)
    out.sum_dd += product(change, change)
    out.least_b = min(out.least_b, float(other.min()))
    out.max_tame = max(out.max_tame, float(change.max()))


def _without_wild(
    out: Measured, one: Any, other: Any, change: Any, at: Any, limit: float, first: int
) -> tuple[Any, Any, Any, Any]:
    """Count and list what is not finite or stands out, and return the rest."""
    import numpy as np

    wild = np.isfinite(one) & ~np.isfinite(other)
    out.num_lost += int(wild.sum())
    out.num_found += int((~np.isfinite(one) & np.isfinite(other)).sum())
    if limit > 0:
        wild |= np.abs(other) > _WILD * limit
    finite = change[np.isfinite(change)]
    out.max_abs = max(out.max_abs, float(finite.max()) if len(finite) else 0.0)
    out.num_wild += int(wild.sum())
    for place in np.flatnonzero(wild)[: NUM_LISTED - len(out.wild)].tolist():
        out.wild.append((int(at[place]) + first, float(one[place]), float(other[place])))
    tame = ~wild & np.isfinite(one) & np.isfinite(other)
    return one[tame], other[tame], change[tame], at[tame]


def _add_places(out: Measured, dtype: str, one: bytes, other: bytes, at: Any) -> None:
    import numpy as np

    if len(at) > _SAMPLED:
        # The median needs no more, and rounding that is all over shows in any of them.
        at = at[:: len(at) // _SAMPLED]
        out.sampled = True
    size = ITEMSIZE[dtype]
    pick = [np.frombuffer(raw, f"<u{size}")[at].tobytes() for raw in (one, other)]
    distance = np.abs(as_places(dtype, pick[0]) - as_places(dtype, pick[1]))
    out.max_ulp = max(out.max_ulp, float(distance.max()))
    powers = np.log2(np.maximum(distance, 1.0)).astype(np.int64)
    for power, count in enumerate(np.bincount(powers, minlength=1).tolist()):
        out.octaves[min(power, _NUM_OCTAVES - 1)] += count
