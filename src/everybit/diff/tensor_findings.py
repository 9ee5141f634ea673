"""A group of differences between two models as a finding: DIF181."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from everybit.core.change import evidence_of
from everybit.core.divergence import DivergenceKind
from everybit.core.dtype import json_number
from everybit.core.finding import Location, Severity, place_elements
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.tree import TreeHasher
from everybit.diff.classes import KIND, SEVERITY, DifferenceClass
from everybit.diff.comparison import meaning_of
from everybit.diff.elements import tell_change
from everybit.diff.stored import CHUNK_BYTES

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.diff.difference import Difference
    from everybit.diff.judge import Group
    from everybit.diff.stored import StoredTensor

_C = DifferenceClass

#: Groups that are findings of their own.
MAX_FINDINGS: Final = 64
_MAX_NAMES: Final = 1000
#: Digests of larger tensors are not worth another pass over both.
_DIGESTED_BYTES: Final = 64 * 1024 * 1024

_REMEDY: Final = {
    _C.ELEMENT: "`everybit verify` tells which file still has the bytes it was sealed with.",
    _C.RUN: "`everybit verify` tells which file still has the bytes it was sealed with.",
    _C.PAGE: "Copy the file again from the side that is whole; a write was lost or misplaced.",
    _C.ZEROS: "Take the tensor from A, or save B again: its values were never written.",
    _C.OVERFLOW: "Convert to bfloat16, or scale the values before: float16 holds none above 65504.",
    _C.ROUNDED: "Nothing is damaged; keep the wider file if its precision is wanted.",
    _C.WIDENED: "Nothing to do: every value is equal.",
    _C.ROUNDING: "Same weights by another order of arithmetic; bits tell whether that was meant.",
    _C.TRAINING: "Compare files of the same step, if they were meant to be equal.",
    _C.STATISTICS: "Call `model.eval()` before evaluating, or compare files of the same step.",
    _C.SIGN: "Look for a conversion that negates, or loads a negative view by its raw bytes.",
    _C.SCALE: "Look for a conversion that folds a factor into the weights, once too often or not.",
    _C.PERMUTED: "Undo the order, or load with the code that expects it.",
    _C.TRANSPOSED: "Transpose it back, or load with the code that expects it (Conv1D, Linear).",
    _C.SWAPPED: "Save again, or exchange them back: the bytes are whole, under the wrong names.",
    _C.REINITIALISED: "Load the weights: these were drawn anew.",
    _C.RESHAPED: "Compare files of the same model, saved with the same dtypes.",
    _C.MISSING: "Compare files of the same model, or look for a save that left tensors out.",
    _C.EXTRA: "Compare files of the same model, or look for a save that left tensors out.",
    _C.RENAMED: "Rename them before loading: `load_state_dict(strict=False)` would drop them.",
    _C.NAME_DAMAGED: "Copy the file again: a name in it is damaged, and loading drops the tensor.",
    _C.DAMAGED: "`everybit verify` places the damage; copy the file again.",
    _C.FILE_MISSING: "Copy the files that are missing, and compare again.",
    _C.FILE_EXTRA: "Nothing to do: A is not touched by what else is in B.",
    _C.FILE_BYTES: "Copy the file again, or find out which side is right.",
}


def finding_of(group: Group) -> Finding:
    """Return the finding about a group."""
    each = group.differences[0] if group.differences else None
    kind = DivergenceKind(group.evidence.get("kind", KIND.get(group.found, "unknown")))
    evidence: dict[str, Any] = {
        "kind": str(kind),
        "class": str(group.found),
        "meaning": str(meaning_of(group)),
    }
    evidence |= {key: value for key, value in group.evidence.items() if key != "kind"}
    if each is not None:
        evidence |= _both(each)
        if len(group.differences) == 1 or group.found is not _C.DAMAGED:
            more = _measured(each, one=len(group.differences) == 1)
            evidence |= {key: value for key, value in more.items() if key not in group.evidence}
    if len(group.differences) > 1:
        evidence |= {
            "num_tensors": len(group.differences),
            "tensors": [member.name for member in group.differences[:_MAX_NAMES]],
        }
    return rule("DIF181").finding(
        _message(group),
        where=_place(group),
        evidence=evidence,
        remedy=_REMEDY.get(group.found, ""),
        severity=_severity(group),
    )


def _severity(group: Group) -> Severity | None:
    if group.found in (_C.MISSING, _C.EXTRA) and group.evidence.get("harmless"):
        return Severity.NOTE
    return SEVERITY.get(group.found)


def _place(group: Group) -> Location:
    if not group.differences:
        return Location(
            path=group.evidence.get("path", ""),
            link=Link.FILE,
            byte_range=group.evidence.get("byte_range"),
        )
    each = group.differences[0]
    tensor = each.tensor
    place: dict[str, Any] = {"path": tensor.path, "tensor": tensor.name, "link": Link.FILE}
    if group.found is _C.DAMAGED and "path" in group.evidence:
        place["path"] = group.evidence["path"]
    if len(group.differences) > 1:
        if span := group.evidence.get("byte_range"):
            place["byte_range"] = tuple(span)
        return Location(**place)
    if each.elements:
        return Location(**place, **place_elements(each.elements))
    changed = each.measured.changed if each.measured else None
    if changed is not None and group.found not in (_C.PERMUTED, _C.TRANSPOSED, _C.ROUNDED):
        place |= changed.place
    one, other = each.a, each.b
    # Offsets are those of the file that the path names.
    same = one is not None and other is not None and one.offset == other.offset
    if each.file_range is not None and same and group.found in (_C.ELEMENT, _C.RUN, _C.PAGE):
        place["byte_range"] = each.file_range
    return Location(**place)


def _message(group: Group) -> str:
    if len(group.differences) != 1:
        return f"{group.found}: {group.why}"
    each = group.differences[0]
    m = each.measured
    if group.found is _C.RESHAPED:
        return f"{each.name}: {group.why}"
    if group.found is _C.ELEMENT and m and m.changed and not each.elements:
        return f"{each.name}: {tell_change(m.changed.changes[0])}"
    if group.found in (_C.MISSING, _C.EXTRA):
        return f"{each.name} is {group.why}"
    head = "" if group.why.startswith(each.name) else f"{each.name}: "
    if m is None or each.elements or group.found in (_C.ROUNDED, _C.WIDENED, _C.OVERFLOW):
        return f"{head}{group.why}"
    return f"{head}{group.why}; {m.num_elements} of {m.total} elements differ"


def _both(each: Difference) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if each.a is not None and each.b is not None:
        if each.a.path != each.b.path:
            facts |= {"path_a": each.a.path, "path_b": each.b.path}
        if each.a.name != each.b.name:
            facts |= {"name_a": each.a.name, "name_b": each.b.name}
    return facts


def _measured(each: Difference, *, one: bool) -> dict[str, Any]:
    m = each.measured
    if m is None or each.a is None or each.b is None:
        return {}
    facts: dict[str, Any] = {"dtype": each.a.dtype, "shape": list(each.a.shape)}
    if one and each.a.num_bytes <= _DIGESTED_BYTES:
        facts |= {"digest_a": _digest(each.a), "digest_b": _digest(each.b)}
    if one and m.changed is not None and not each.elements:
        facts |= {
            **evidence_of(m.changed.changes),
            "num_elements": m.changed.num_elements,
            "num_bits": m.changed.num_bits,
        }
        if not m.changed.whole:
            facts["element_ranges_whole"] = False
    facts |= {"max_abs": json_number(m.widest), "max_rel": json_number(m.max_rel)}
    if m.max_ulp:
        facts["ulp"] = m.max_ulp
        if m.sampled:
            facts["ulp_sampled"] = True
    if m.sum_aa > 0 and math.isfinite(m.relative):
        facts["relative"] = m.relative
    return facts


def _digest(tensor: StoredTensor) -> str:
    if tensor.tree is not None:
        return str(tensor.tree)
    hasher = TreeHasher()
    for start in range(0, tensor.num_bytes, CHUNK_BYTES):
        hasher.update(tensor.read(start, min(start + CHUNK_BYTES, tensor.num_bytes)))
    return str(hasher.digest(tensor.dtype, tensor.shape))
