"""Two model files, or two sets of them, side by side: which tensors differ, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.change import evidence_of
from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.diff.elements import changed_elements
from everybit.diff.names import align
from everybit.diff.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.change import Change
    from everybit.core.dtype import Number
    from everybit.core.finding import Finding
    from everybit.diff.stored import StoredTensor

#: Differing tensors that are findings of their own; the others are named in the first one.
MAX_FINDINGS: Final = 64
_MAX_NAMES: Final = 1000


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What a comparison has found so far."""

    num_compared: int = 0
    num_bytes: int = 0
    differing: list[tuple[StoredTensor, StoredTensor]] = field(default_factory=list)
    reshaped: list[tuple[StoredTensor, StoredTensor]] = field(default_factory=list)
    alone: list[tuple[str, StoredTensor]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [each.name for each, _ in (*self.differing, *self.reshaped)] + [
            each.name for _, each in self.alone
        ]


def diff_tensors(
    pairs: Sequence[tuple[Sequence[StoredTensor], Sequence[StoredTensor]]],
    *,
    skipped: Sequence[Skipped] = (),
) -> Outcome:
    """Compare tensors by their digests, and place what differs.

    Args:
        pairs: The tensors of A and of B, a pair for each two files that belong together; names
            are paired within each.
        skipped: What the caller could not give to compare.
    """
    tally = _Tally(skipped=list(skipped))
    for a, b in pairs:
        _compare(a, b, tally)
    findings = _findings(tally)
    coverage = Coverage(
        checked=(Checked(what="tensors", count=tally.num_compared),), skipped=tuple(tally.skipped)
    )
    stats = {
        "tensors": tally.num_compared,
        "bytes": tally.num_bytes,
        "differing": len(tally.names),
    }
    first = None
    if findings:
        kind = DivergenceKind(findings[0].evidence["kind"])
        first = Divergence(where=findings[0].where, kind=kind, why=_why(tally))
    return Outcome(findings=tuple(findings), first=first, coverage=coverage, stats=stats)


def _compare(a: Sequence[StoredTensor], b: Sequence[StoredTensor], tally: _Tally) -> None:
    found = align([each.name for each in a], [each.name for each in b])
    if found.note:
        tally.skipped.append(
            Skipped(what="names", why=f"{found.note}; paired without it", promised=False)
        )
    if found.outside:
        side, prefix = ("A", found.prefix_a) if found.prefix_a else ("B", found.prefix_b)
        why = f"{len(found.outside)} of {side} do not lie under {prefix!r}: beside the model"
        tally.skipped.append(Skipped(what="tensors", why=why, promised=False))
    for at, there in found.pairs:
        _compare_pair(a[at], b[there], tally)
    paired_a = {a[at].storage for at, _ in found.pairs}
    paired_b = {b[there].storage for _, there in found.pairs}
    for side, names, tensors, paired in (
        ("A", found.only_a, a, paired_a),
        ("B", found.only_b, b, paired_b),
    ):
        only = set(names)
        for each in tensors:
            if each.name not in only:
                continue
            if each.num_bytes and each.storage and each.storage in paired:
                why = f"in {side} only; a second name for bytes that were compared (tied)"
                tally.skipped.append(Skipped(what=f"tensor {each.name}", why=why, promised=False))
            else:
                tally.alone.append((side, each))


def _compare_pair(a: StoredTensor, b: StoredTensor, tally: _Tally) -> None:
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        tally.reshaped.append((a, b))
        return
    if a.tree is None or b.tree is None:
        why = a.unreadable or b.unreadable or "its bytes have no digest"
        tally.skipped.append(Skipped(what=f"tensor {a.name}", why=why))
        return
    tally.num_compared += 1
    tally.num_bytes += a.num_bytes
    if a.tree != b.tree:
        tally.differing.append((a, b))


def _findings(tally: _Tally) -> list[Finding]:
    """Return the findings in the order: bytes differ, dtype or shape differs, on one side only."""
    found = [_bytes_differ(a, b) for a, b in tally.differing[:MAX_FINDINGS]]
    room = MAX_FINDINGS - len(found)
    found += [_form_differs(a, b) for a, b in tally.reshaped[:room]]
    room = MAX_FINDINGS - len(found)
    found += [_alone(side, each) for side, each in tally.alone[:room]]
    names = tally.names
    if len(names) > len(found):
        rest = len(names) - len(found)
        why = f"{rest} that differ are named in the first finding's evidence and not placed"
        tally.skipped.append(Skipped(what="elements", why=why, promised=False))
        found[0] = _with(found[0], {"num_tensors": len(names), "tensors": names[:_MAX_NAMES]})
    return found


def _why(tally: _Tally) -> str:
    if tally.differing:
        return "the bytes differ; the files alone do not tell which are right"
    if tally.reshaped:
        return "dtype or shape differ, so that no value can be compared"
    return "the tensors that both hold are equal; some are in one only"


def _with(finding: Finding, more: dict[str, Any]) -> Finding:
    return rule(finding.rule).finding(
        finding.message,
        where=finding.where,
        evidence={**finding.evidence, **more},
        remedy=finding.remedy,
    )


def _place(tensor: StoredTensor, **more: Any) -> Location:
    return Location(path=tensor.path, tensor=tensor.name, link=Link.FILE, **more)


def _both(a: StoredTensor, b: StoredTensor) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if a.path != b.path:
        facts |= {"path_a": a.path, "path_b": b.path}
    if a.name != b.name:
        facts |= {"name_a": a.name, "name_b": b.name}
    return facts


def _bytes_differ(a: StoredTensor, b: StoredTensor) -> Finding:
    changed = changed_elements(a, b)
    total = a.num_bytes // a.itemsize
    message = f"{a.name}: {changed.num_elements} of {total} elements differ"
    if changed.num_elements == 1:
        message = f"{a.name}: {_shown(changed.changes[0])}"
    evidence = {
        "kind": str(DivergenceKind.UNKNOWN),
        **_both(a, b),
        "digest_a": str(a.tree),
        "digest_b": str(b.tree),
        "dtype": a.dtype,
        "shape": list(a.shape),
        **evidence_of(changed.changes),
        "num_elements": changed.num_elements,
        "num_bits": changed.num_bits,
    }
    if not changed.whole:
        evidence["element_ranges_whole"] = False
    return rule("DIF181").finding(
        message,
        where=_place(a, **changed.place),
        evidence=evidence,
        remedy="`everybit verify` tells which file still has the bytes it was sealed with.",
    )


def _shown(change: Change) -> str:
    bits = ", ".join(map(str, change.bits))
    values = f"{_number(change.before)} in A, {_number(change.after)} in B"
    return f"element {change.element}, bit{'s' if len(change.bits) > 1 else ''} {bits}: {values}"


def _number(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _form_differs(a: StoredTensor, b: StoredTensor) -> Finding:
    forms = [f"{each.dtype}{list(each.shape)}" for each in (a, b)]
    return rule("DIF181").finding(
        f"{a.name}: {forms[0]} in A, {forms[1]} in B",
        where=_place(a),
        evidence={
            "kind": str(DivergenceKind.UNKNOWN),
            **_both(a, b),
            "form_a": forms[0],
            "form_b": forms[1],
        },
        remedy="Compare files of the same model, saved with the same dtypes.",
    )


def _alone(side: str, tensor: StoredTensor) -> Finding:
    return rule("DIF181").finding(
        f"{tensor.name} is in {side} only",
        where=_place(tensor),
        evidence={
            "kind": str(DivergenceKind.MISSING),
            "only_in": side,
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
        },
        remedy="Compare files of the same model, or look for a save that left tensors out.",
    )
