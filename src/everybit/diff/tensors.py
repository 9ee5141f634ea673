"""Two model files, or two sets of them, side by side: which tensors differ, where, and how."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from posixpath import dirname
from typing import TYPE_CHECKING, Any, Final

from everybit.core.divergence import Divergence, DivergenceKind
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.diff.classes import DifferenceClass
from everybit.diff.classify import classify, classify_shapes
from everybit.diff.comparison import Comparison, describe
from everybit.diff.difference import Difference
from everybit.diff.faults import Fault, group_faults
from everybit.diff.judge import Group, Surroundings, judge
from everybit.diff.matching import Matching, explain_alone, find_renamed, match
from everybit.diff.measure import measure
from everybit.diff.outcome import Outcome
from everybit.diff.tensor_findings import MAX_FINDINGS, finding_of
from everybit.diff.values import has_values
from everybit.diff.witness import ask_checksums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everybit.diff.stored import StoredTensor

_C = DifferenceClass
#: Differences without a value that parts.
_PART_NOTHING: Final = frozenset({_C.FILE_EXTRA, _C.WIDENED, _C.RENAMED})
_NO_PROGRESS: Final = lambda _: None  # noqa: E731

Files = tuple["Sequence[StoredTensor]", "Sequence[StoredTensor]"]
Value = tuple[str, object, object]


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What a comparison has found so far."""

    num_compared: int = 0
    num_bytes: int = 0
    num_equal: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    matchings: list[Matching] = field(default_factory=list)


def diff_tensors(
    pairs: Sequence[Files],
    *,
    skipped: Sequence[Skipped] = (),
    values: Sequence[Value] = (),
    faults: Sequence[Fault] = (),
    extra: Sequence[Group] = (),
    same_bytes: bool | None = None,
    copy: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] = _NO_PROGRESS,
) -> Outcome:
    """Compare the tensors of files that belong together, and class what differs.

    Args:
        pairs: The tensors of A and of B, a pair for each two files that belong together.
        skipped: What the caller could not give to compare.
        values: Plain values beside the tensors that differ: `(key, A's, B's)`.
        faults: Damage of the files themselves.
        extra: Differences that are not of tensors.
        same_bytes: Whether the files are equal byte by byte, where that is known.
        copy: Whether A's files are all in B, with a `sentence`; told in the headline.
        progress: Told the bytes of each pair of tensors once it is compared.
    """
    tally = _Tally(skipped=list(skipped))
    for unit in _units(pairs):
        _compare_unit(unit, values, faults, tally, progress)
    ask_checksums(tally.groups)
    tally.groups = [*group_faults(faults, tally.groups), *extra, *tally.groups]
    comparison = describe(
        tally.groups,
        num_equal=tally.num_equal,
        num_compared=tally.num_compared,
        matchings=tally.matchings,
        values=values,
        same_bytes=same_bytes,
        copy=copy,
    )
    return _outcome(tally, comparison)


def _outcome(tally: _Tally, comparison: Comparison) -> Outcome:
    groups = comparison.groups
    findings = [finding_of(group) for group in groups[:MAX_FINDINGS]]
    if len(groups) > len(findings):
        rest = len(groups) - len(findings)
        why = f"{rest} more differences are in the table of tensors and not findings of their own"
        tally.skipped.append(Skipped(what="findings", why=why, promised=False))
    first = None
    lead = next(
        (finding for finding in findings if finding.evidence["class"] not in _PART_NOTHING), None
    )
    if lead is not None:
        kind = DivergenceKind(lead.evidence["kind"])
        first = Divergence(where=lead.where, kind=kind, why=comparison.why)
    differing = sum(len(group.differences) for group in groups)
    return Outcome(
        findings=tuple(findings),
        first=first,
        coverage=Coverage(
            checked=(Checked(what="tensors", count=tally.num_compared),),
            skipped=tuple(tally.skipped),
        ),
        stats={"tensors": tally.num_compared, "bytes": tally.num_bytes, "differing": differing},
        comparison=comparison.to_json(findings),
    )


def _units(pairs: Sequence[Files]) -> list[list[Files]]:
    """Return files in the groups that make one model: a folder's, where names do not clash."""
    folders: dict[str, list[Files]] = {}
    for a, b in pairs:
        some = next(iter((*a, *b)), None)
        folders.setdefault(dirname(some.path) if some else "", []).append((a, b))
    units: list[list[Files]] = []
    for files in folders.values():
        clash = any(
            max(Counter(each.name for pair in files for each in pair[side]).values(), default=0) > 1
            for side in (0, 1)
        )
        units += [[pair] for pair in files] if clash else [files]
    return units


def _compare_unit(
    files: list[Files],
    values: Sequence[Value],
    faults: Sequence[Fault],
    tally: _Tally,
    progress: Callable[[int], None],
) -> None:
    matching = match(files)
    differences = find_renamed(matching)
    for a, b in matching.pairs:
        found = _compare(a, b, tally)
        if found:
            differences += found
        progress(a.num_bytes)
    lost = explain_alone(matching)
    paths = {each.path for pair in files for side in pair for each in side}
    hiding = {fault.side for fault in faults if fault.hides_tensors and fault.path in paths}
    for each in lost:
        # What a damaged file does not tell of is part of that file's damage.
        side = {_C.MISSING: "B", _C.EXTRA: "A"}.get(each.found)
        if side in hiding:
            each.found = _C.DAMAGED
            each.why = f"what is left of {side}'s file does not tell of it"
    around = Surroundings(
        pairs=matching.pairs,
        values=[each for each in values if _belongs(each[0], paths)],
    )
    tally.groups += judge([*differences, *lost], around)
    tally.skipped += matching.notes
    tally.matchings.append(matching)


def _belongs(key: str, paths: set[str]) -> bool:
    return ":" not in key or any(key.startswith(f"{path}:") for path in paths)


def _compare(a: StoredTensor, b: StoredTensor, tally: _Tally) -> list[Difference]:
    if a is b:
        # Of files that are equal byte by byte.
        tally.num_compared += 1
        tally.num_equal += 1
        tally.num_bytes += a.num_bytes
        return []
    if a.unreadable or b.unreadable:
        tally.skipped.append(Skipped(what=f"tensor {a.name}", why=a.unreadable or b.unreadable))
        return []
    if a.shape != b.shape:
        return [classify_shapes(a, b)]
    if a.dtype != b.dtype and not (has_values(a.dtype) and has_values(b.dtype)):
        return [classify_shapes(a, b)]
    tally.num_compared += 1
    tally.num_bytes += a.num_bytes
    if a.dtype == b.dtype and a.tree is not None and a.tree == b.tree:
        tally.num_equal += 1
        return []
    if a.held < a.num_bytes or b.held < b.num_bytes:
        return [_cut(a, b)]
    measured = measure(a, b)
    if a.dtype == b.dtype and not measured.num_elements:
        tally.num_equal += 1
        return []
    return classify(a, b, measured)


def _cut(a: StoredTensor, b: StoredTensor) -> Difference:
    side, tensor = ("A", a) if a.held < a.num_bytes else ("B", b)
    measured = measure(a, b) if tensor.held and a.dtype == b.dtype else None
    equal = "" if measured is None else ", which differ" if measured.num_elements else ", equal"
    return Difference(
        name=a.name,
        a=a,
        b=b,
        found=_C.DAMAGED,
        why=f"{side}'s file holds {tensor.held} of its {tensor.num_bytes} bytes{equal}",
        evidence={"side": side, "num_held_bytes": tensor.held, "num_bytes": tensor.num_bytes},
    )
