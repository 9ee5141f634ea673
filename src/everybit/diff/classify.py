"""What sets one pair of tensors apart, from their own bytes alone.

The tests that account for every bit come first; sizes and angles only say what is left. What the
other tensors say about a pair is weighed afterwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from everybit.diff.classes import DifferenceClass
from everybit.diff.difference import Difference
from everybit.diff.elements import tell_change
from everybit.diff.measure import NUM_LISTED
from everybit.diff.rearranged import find_order, is_transposed, same_elements
from everybit.diff.standing_out import exceptions, standing_out
from everybit.diff.stored import CHUNK_BYTES
from everybit.diff.values import MANTISSA_BITS, is_float

if TYPE_CHECKING:
    from everybit.diff.measure import Measured
    from everybit.diff.stored import StoredTensor

_C = DifferenceClass

#: Unit of storage: damage by a lost write begins and ends at its multiples.
SECTOR_BYTES: Final = 512
_PAGE_BYTES: Final = 4096
#: Fewer negated or scaled elements may be chance.
_MIN_SYSTEMATIC: Final = 8
#: Fewer values than this say nothing about how they were made; looked for among so many.
_MIN_VALUES: Final = 8
_LOOKED_AT: Final = 4096
#: Of rounding noise (facts: median 2 to 4 ULP, at most 4e-7 of the norm in float32).
_NOISE_MEDIAN_ULP: Final = 8.0
_NOISE_RELATIVE_ULP: Final = 16.0
_NOISE_BLOCKS: Final = 0.3
#: Training moves more elements than this, or most of a small tensor.
_FEW: Final = 32
#: A trained tensor keeps its direction; a new one has none in common with the old.
_SAME_DIRECTION: Final = 0.7


def classify(a: StoredTensor, b: StoredTensor, measured: Measured) -> list[Difference]:
    """Return the differences of two tensors of one shape that are not equal.

    One, and a second where single values stand out of a tensor that else moved as a whole.
    """
    out = Difference(name=a.name, a=a, b=b, found=_C.UNKNOWN, measured=measured)
    if a.dtype != b.dtype:
        _across_dtypes(out, measured)
        return [out, *exceptions(out, measured)]
    _place_in_file(out, measured)
    for test in (_rounded, _zeroed, _single, _page, _negated, _scaled, _rearranged, _run):
        if test(out, measured):
            return [out, *exceptions(out, measured)]
    _by_size(out, measured)
    stand_out = standing_out(out, measured)
    return [out, stand_out] if stand_out else [out]


def classify_shapes(a: StoredTensor, b: StoredTensor) -> Difference:
    """Return the difference of two tensors of different shapes."""
    forms = [f"{each.dtype}{list(each.shape)}" for each in (a, b)]
    out = Difference(
        name=a.name,
        a=a,
        b=b,
        found=_C.RESHAPED,
        why=f"{forms[0]} in A, {forms[1]} in B",
        evidence={"form_a": forms[0], "form_b": forms[1]},
    )
    axes = (
        is_transposed(a, b) if a.dtype == b.dtype and not (a.unreadable or b.unreadable) else None
    )
    if axes is not None:
        out.found = _C.TRANSPOSED
        out.why = f"B holds A's values with the axes in the order {list(axes)}"
        out.evidence["permutation"] = list(axes)
    return out


def _across_dtypes(out: Difference, m: Measured) -> None:
    assert out.a is not None
    assert out.b is not None
    out.evidence |= {"dtype_a": out.a.dtype, "dtype_b": out.b.dtype}
    if m.equal_values:
        out.found = _C.WIDENED
        out.why = f"{out.b.dtype} in B, {out.a.dtype} in A, and every value is equal"
        return
    if not _rounded(out, m):
        out.why = f"{out.a.dtype} in A, {out.b.dtype} in B, and not by rounding"
        if is_float(out.a.dtype) and is_float(out.b.dtype):
            _by_size(out, m)


def _place_in_file(out: Difference, m: Measured) -> None:
    assert out.b is not None
    if out.b.offset is None or m.changed is None:
        return
    first, last = m.changed.span
    size = out.b.itemsize
    out.file_range = (out.b.offset + first * size, out.b.offset + last * size)


def _rounded(out: Difference, m: Measured) -> bool:
    if not m.roundings:
        return False
    assert out.a is not None
    assert out.b is not None
    held = m.roundings[0]
    told = out.b if held.source == "A" else out.a
    facts = {
        "rounded_to": held.target,
        "rounded_side": "B" if held.source == "A" else "A",
        "truncated": held.truncated,
    }
    if not held.num_overflowed and _num_values(told, m) < _MIN_VALUES:
        # Values that are all one, or a few, are round whatever happened.
        out.maybe_rounded = facts
        return False
    result, exact = ("B", "A") if held.source == "A" else ("A", "B")
    how = "cut off" if held.truncated else "rounded"
    stored = (out.b if held.source == "A" else out.a).dtype == held.target
    back = "" if stored else f" and stored as {out.a.dtype} again"
    out.found = _C.ROUNDED
    every = f"all but {len(held.exceptions)} values" if held.exceptions else "every value"
    verb = "are" if held.exceptions else "is"
    out.why = f"{every} of {result} {verb} {exact}'s {how} to {held.target}{back}"
    out.evidence |= facts
    if held.num_saturated:
        out.evidence["num_saturated"] = held.num_saturated
    if held.num_overflowed:
        out.found = _C.OVERFLOW
        out.evidence["num_overflowed"] = held.num_overflowed
        out.why += f", but {held.num_overflowed} finite values lay beyond it and are not finite now"
    elif held.num_saturated:
        out.found = _C.OVERFLOW
        out.why += f", but {held.num_saturated} values lay beyond it and are its largest now"
    return True


def _num_values(tensor: StoredTensor, m: Measured) -> int:
    """Return how many values a tensor holds where it begins to differ, counted up to a few."""
    size = tensor.itemsize
    first = m.changed.span[0] if m.changed is not None else 0
    end = min((first + _LOOKED_AT) * size, tensor.num_bytes)
    raw = tensor.read(first * size, end)
    return len({raw[at : at + size] for at in range(0, len(raw), size)})


def _zeroed(out: Difference, m: Measured) -> bool:
    assert out.b is not None
    if m.num_zeroed != m.num_elements or m.total < 2 or not _all_zero(out.b, 0, out.b.num_bytes):
        return False
    out.found = _C.ZEROS
    out.why = "every element of B is zero, and A's are not"
    return True


def _single(out: Difference, m: Measured) -> bool:
    if m.num_elements != 1 or m.changed is None:
        return False
    change = m.changed.changes[0]
    out.found = _C.ELEMENT
    out.why = tell_change(change)
    if m.total > 1:
        out.why += "; every other element is equal to the bit"
    out.evidence |= {
        "element": change.element,
        "before": change.to_json()["before"],
        "after": change.to_json()["after"],
        "bits": list(change.bits),
    }
    return True


def _page(out: Difference, m: Measured) -> bool:
    """Zeros or foreign bytes between multiples of a sector in the file."""
    if m.changed is None:
        return False
    for side, tensor in (("B", out.b), ("A", out.a)):
        if tensor is None or tensor.offset is None:
            continue
        size = tensor.itemsize
        first, last = m.changed.span
        low, high = tensor.offset + first * size, tensor.offset + last * size
        start = low // SECTOR_BYTES * SECTOR_BYTES
        end = -(-high // SECTOR_BYTES) * SECTOR_BYTES
        within = (max(start, tensor.offset), min(end, tensor.offset + tensor.num_bytes))
        if (high - low) * 2 < SECTOR_BYTES or within[1] - within[0] >= tensor.num_bytes:
            continue
        zeros = _all_zero(tensor, within[0] - tensor.offset, within[1] - tensor.offset)
        # Equal bytes at the border by chance: a few, not many.
        snug = low - within[0] < 8 + size and within[1] - high < 8 + size
        dense = m.num_elements >= 0.9 * (last - first)
        other = out.b if side == "A" else out.a
        if not zeros and not (snug and dense and m.cosine < _SAME_DIRECTION and side == "B"):
            continue
        if zeros and other is not None and side == "A" and not snug:
            continue
        what = "zeros" if zeros else "foreign bytes"
        out.found = _C.PAGE
        out.why = f"{what} in {side} between multiples of {_unit(start, end)} bytes of its file"
        out.evidence |= {"filled_with": what, "side": side, "file_range": [start, end]}
        return True
    return False


def _unit(start: int, end: int) -> int:
    return _PAGE_BYTES if start % _PAGE_BYTES == 0 and end % _PAGE_BYTES == 0 else SECTOR_BYTES


def _all_zero(tensor: StoredTensor, start: int, end: int) -> bool:
    for begin in range(start, end, CHUNK_BYTES):
        piece = tensor.read(begin, min(begin + CHUNK_BYTES, end))
        if piece.count(0) != len(piece):
            return False
    return end > start


def _negated(out: Difference, m: Measured) -> bool:
    if m.num_negated != m.num_elements or m.num_elements < _enough(m):
        return False
    out.found = _C.SIGN
    out.why = "every differing element is A's with the other sign"
    out.evidence["factor"] = -1.0
    return True


def _scaled(out: Difference, m: Measured) -> bool:
    if m.factor is None or m.num_elements < _enough(m) or m.factor == 1.0:
        return False
    power = math.log2(abs(m.factor))
    exact = power == round(power)
    out.found = _C.SCALE
    out.why = f"every differing element is A's times {m.factor:.9g}"
    out.why += ", exactly" if exact else ", within rounding"
    out.evidence |= {"factor": m.factor, "power_of_two": int(power) if exact else None}
    return True


def _enough(m: Measured) -> int:
    return min(_MIN_SYSTEMATIC, max(m.total, 2))


def _rearranged(out: Difference, m: Measured) -> bool:
    assert out.a is not None
    assert out.b is not None
    if not m.same_bag or not same_elements(out.a, out.b):
        return False
    order = find_order(out.a, out.b)
    if order is not None:
        noun = _axis_noun(out.a.shape, order.axis)
        out.found = _C.PERMUTED
        out.why = f"B holds A's {noun} in another order: {order.moved} of {order.size} moved"
        out.why += f" ({order.text})" if order.text else ""
        out.evidence |= {
            "axis": order.axis,
            "permutation": list(order.first),
            "num_moved": order.moved,
            "order": order.text,
        }
        return True
    axes = is_transposed(out.a, out.b)
    if axes is not None:
        out.found = _C.TRANSPOSED
        out.why = f"B holds A's values with the axes in the order {list(axes)}"
        out.evidence["permutation"] = list(axes)
        return True
    out.found = _C.PERMUTED
    out.why = "B holds A's elements in another order, along no single axis"
    out.evidence |= {"axis": None, "num_moved": m.num_elements}
    return True


def _axis_noun(shape: tuple[int, ...], axis: int) -> str:
    if len(shape) == 1:
        return "elements"
    return "rows" if axis == 0 else "columns" if axis == len(shape) - 1 else f"axis {axis}"


def _run(out: Difference, m: Measured) -> bool:
    """Elements that stand together, while the others are equal to the bit."""
    if m.changed is None or m.num_elements < 2:
        return False
    first, last = m.changed.span
    length = last - first
    together = m.num_elements >= 0.5 * length and length <= 0.9 * m.total
    kept = is_float(out.tensor.dtype) and m.cosine >= _SAME_DIRECTION and not m.num_wild
    if not together or (kept and length > _MIN_SYSTEMATIC and m.max_abs <= m.max_a):
        return False
    zeros = m.num_zeroed == m.num_elements
    out.found = _C.RUN
    out.why = f"{m.num_elements} elements that stand together differ"
    out.why += ", all zero in B" if zeros else ""
    out.evidence["element_range"] = [first, last]
    return True


def _by_size(out: Difference, m: Measured) -> None:
    dtype = out.tensor.dtype
    if not is_float(dtype):
        out.why = out.why or "no rule accounts for the elements that differ"
        return
    if m.num_wild > NUM_LISTED or m.num_wild == m.num_elements:
        out.why = f"{m.num_wild} values of B are not finite, or far outside what A holds"
        return
    eps = 2.0 ** -MANTISSA_BITS[dtype]
    spread = len(m.blocks) >= _NOISE_BLOCKS * min(64, m.total)
    small = m.median_ulp <= _NOISE_MEDIAN_ULP and m.relative <= _NOISE_RELATIVE_ULP * eps
    if small and spread and m.tiny_beside_wild:
        out.found = _C.ROUNDING
        out.why = f"few units of the last place (median about {m.median_ulp:g}), spread all over"
    elif small:
        out.why = "few units of the last place, in one part only"
    elif not m.sum_aa and m.sum_bb:
        out.found = _C.TRAINING
        out.why = "A's elements that differ are zero"
    elif m.num_elements < _FEW and m.share < 0.5:
        out.why = f"{m.num_elements} elements here and there, the others equal to the bit"
    elif m.cosine >= _SAME_DIRECTION and m.relative < 2:
        out.found = _C.TRAINING
        out.why = f"moved by {m.relative:.2g} of its norm in the same direction"
    elif m.share > 0.9 and m.num_elements >= 16 and abs(m.cosine) < 0.1 + 4 / m.num_elements**0.5:
        ratio = math.sqrt(m.sum_bb / m.sum_aa) if m.sum_aa else math.inf
        alike = 0.5 < ratio < 2
        out.found = _C.REINITIALISED if alike else _C.UNKNOWN
        out.why = (
            "values of the same size without any likeness"
            if alike
            else (f"without any likeness, {ratio:.3g} times as large")
        )
    else:
        out.why = "no rule accounts for the elements that differ"
