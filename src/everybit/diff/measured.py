"""The evidence that two records hold of a first difference: its breadth and its size."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from everybit.core.link import Link
from everybit.core.observation import split_entry
from everybit.diff.blocks import compare_blocks
from everybit.diff.evidence import BANDS, NARROW_BANDS, Evidence
from everybit.diff.trace_names import align_traced, is_traced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.observation import SumTable
    from everybit.diff.parting import Parting

#: Numbers of a step that measure what stands at a link. They are norms: a large change of one shows
#: a large difference, a small change of one proves no small difference.
#: Links whose tensors, where they are of parameters, do not follow from each other.
_INDEPENDENT: Final = frozenset({Link.GRAD, Link.REDUCE, Link.UPDATE})
_NORMS: Final = {Link.GRAD: "grad_norm", Link.UPDATE: "update_norm"}


def evidence_of(
    parting: Parting,
    configuration: Mapping[str, Any],
    *,
    repeats: str,
    first: bool,
    targets: bool = False,
) -> Evidence:
    """Return what the records of a parting's step say of its breadth and size.

    Args:
        parting: Where two runs part, at a computed link.
        configuration: In force at that step, for the precision of its values.
        repeats: What proves that the job repeats bit for bit, in words; "" where nothing does.
        first: Whether no step before it was compared.
        targets: Whether the samples of the step, targets among them, are known to be equal.
    """
    difference = parting.differences[0]
    band, band_source = _band(difference.link, configuration)
    independent = not difference.traced and difference.link in _INDEPENDENT
    moved = len({split_entry(each[0])["parameter"] for each in difference.differing})
    evidence = Evidence(
        independent=independent,
        num_tensors=difference.num_parameters if independent else difference.num_compared,
        num_tensors_moved=moved if independent else len(difference.differing),
        band=band,
        band_source=band_source,
        repeats=repeats,
        first=first,
    )
    rows = _rows(parting)
    if rows is not None and (change := compare_blocks(*rows)) is not None:
        return replace(
            evidence,
            num_blocks=change.num_blocks,
            num_blocks_moved=change.num_moved,
            relative=change.relative,
            outlier=change.outlier,
        )
    if difference.link is Link.LOSS:
        relative, ulp = _of_losses(*parting.losses)
        # One number says how far, and not how broad; but where all that it is computed from is on
        # record and agrees, nothing else can have moved.
        return replace(
            evidence, relative=relative, max_ulp=ulp, confined=parting.traced and targets
        )
    relative = _of_norms(parting)
    if relative is not None and not relative <= band:
        return replace(evidence, relative=relative)
    return evidence


def _rows(parting: Parting) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return the block sums of the first differing tensor in A and in B, where both have them."""
    name, link = parting.first_name, parting.link
    if not name or parting.records is None:
        return None
    one, other = ([t for t in record.sums if t.link is link] for record in parting.records)
    for table_a in one:
        if name not in table_a.names:
            continue
        for table_b in other:
            there = _counterpart(name, table_a, table_b)
            if there is not None:
                rows = table_a.values[table_a.names.index(name)], table_b.values[there]
                return tuple(map(float, rows[0])), tuple(map(float, rows[1]))
    return None


def _counterpart(name: str, a: SumTable, b: SumTable) -> int | None:
    if name in b.names:
        return b.names.index(name)
    if not (is_traced(a.names) and is_traced(b.names)):
        return None
    place = a.names.index(name)
    return next((at for here, at in align_traced(a.names, b.names).pairs if here == place), None)


def _of_losses(a: Sequence[float], b: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the relative distance of the first losses that differ, and how many float32 ULP."""
    for one, other in zip(a, b, strict=False):
        if one == other or (one != one and other != other):
            continue
        if not (math.isfinite(one) and math.isfinite(other)):
            return math.nan, None
        scale = max(abs(one), abs(other))
        return abs(one - other) / scale, abs(_place(one) - _place(other))
    return None, None


def _place(value: float) -> float:
    """Return the place of a number among all of float32, in units of its last place."""
    try:
        (bits,) = struct.unpack("<i", struct.pack("<f", value))
    except OverflowError:
        return math.inf
    return float(bits if bits >= 0 else -(bits & 0x7FFFFFFF))


def _of_norms(parting: Parting) -> float | None:
    name = _NORMS.get(parting.link)
    if name is None or parting.records is None:
        return None
    one, other = (record.scalars.get(name) for record in parting.records)
    if one is None or other is None or not one:
        return None
    return abs(one - other) / abs(one) if math.isfinite(one) else math.nan


def _band(link: Link, configuration: Mapping[str, Any]) -> tuple[float, str]:
    """Return the band of a link; wider where values are rounded to a narrow type on purpose."""
    band = BANDS.get(link, BANDS[Link.FORWARD])
    precision = configuration.get("precision")
    told = repr(precision) if precision else ""
    for name, narrow in NARROW_BANDS.items():
        if name in told:
            return max(band, narrow), f"published for {name}"
    return band, "published for float32"
