"""All differences of two models together: what belongs to one cause is one group.

A hundred tensors that moved by one training step are one difference, and so are two that were
exchanged, or the small tensors that one lost page hit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import json_number
from everybit.diff.classes import ORDER, DifferenceClass
from everybit.diff.roles import is_counter, is_statistic, is_trained, of_optimizer
from everybit.diff.swaps import find_swaps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.diff.difference import Difference
    from everybit.diff.stored import StoredTensor

_C = DifferenceClass

#: More tensors without a rule for them are told as one group.
MAX_ALONE: Final = 8
#: Bytes between two tensors of a file that alignment and record headers take.
_GAP_BYTES: Final = 512
#: Tensors of fewer elements are judged by the larger ones beside them.
_SMALL: Final = 256
#: Tensors in which rounding has to show, where few elements of each differ.
_SEVERAL: Final = 3
#: A statistic does not grow by so much from one file to another.
_POISON: Final = 1e6
#: Of the widest change of a tensor that moved as a whole, how far single elements may go.
_FURTHER: Final = 10.0
#: Bits of an element that damage changes, at most.
_FEW_BITS: Final = 3
#: Classes that training makes of optimizer state, and of small tensors.
_MOVED: Final = frozenset(
    {_C.TRAINING, _C.ROUNDING, _C.UNKNOWN, _C.REINITIALISED, _C.SCALE, _C.RUN, _C.ELEMENT}
)
#: Every tensor of these is a difference of its own.
_ALONE: Final = frozenset({_C.ELEMENT, _C.RUN})


@dataclass(slots=True, kw_only=True)
class Group:
    """Differences of one class and one cause.

    Attributes:
        found: The class.
        differences: Its members, the weightiest first.
        why: What the class stands on, one clause.
        evidence: JSON-ready facts of the whole.
    """

    found: DifferenceClass
    differences: list[Difference]
    why: str
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known beside the differences.

    Attributes:
        pairs: All pairs of tensors that were compared.
        values: Plain values beside the tensors that differ: `(key, A's, B's)`.
    """

    pairs: Sequence[tuple[StoredTensor, StoredTensor]]
    values: Sequence[tuple[str, object, object]] = ()


def judge(differences: Sequence[Difference], around: Surroundings) -> list[Group]:
    """Return the differences in groups, the gravest first."""
    left = list(differences)
    groups = find_swaps(left, around.pairs, Group)
    groups += _pages(left)
    _round_too(left)
    groups += _rounding(left, around)
    groups += _training(left, around)
    groups += _statistics(left)
    _anew_too(left)
    groups += [
        Group(found=each.found, differences=[each], why=each.why, evidence=each.evidence)
        for each in _take(left, lambda each: each.found in _ALONE)
    ]
    for key in dict.fromkeys(_cause(each) for each in left):
        members = _take(left, lambda each, key=key: _cause(each) == key)  # type: ignore[misc]
        alone = members[0].found is _C.UNKNOWN and len(members) <= MAX_ALONE
        for part in [[each] for each in members] if alone else [members]:
            groups.append(
                Group(found=part[0].found, differences=part, why=_why(part), evidence=_facts(part))
            )
    rank = {found: place for place, found in enumerate(ORDER)}
    return sorted(groups, key=lambda group: rank[group.found])


def _take(left: list[Difference], wanted: Callable[[Difference], bool]) -> list[Difference]:
    taken = [each for each in left if wanted(each)]
    left[:] = [each for each in left if not wanted(each)]
    return taken


def _cause(each: Difference) -> tuple[object, ...]:
    """Return what members of a group have in common."""
    facts = each.evidence
    common = {
        _C.ROUNDED: ("rounded_to", "rounded_side", "truncated"),
        _C.WIDENED: ("dtype_a", "dtype_b"),
        _C.SCALE: ("factor",),
        _C.PERMUTED: ("order", "axis"),
        _C.MISSING: ("harmless",),
        _C.EXTRA: ("harmless",),
    }.get(each.found, ())
    return (each.found, *(_hashable(facts.get(key)) for key in common))


def _hashable(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


def _why(members: Sequence[Difference]) -> str:
    if len(members) == 1:
        return members[0].why
    return f"{members[0].why}; so in {len(members)} tensors"


def _facts(members: Sequence[Difference]) -> dict[str, Any]:
    """Return the facts of a group: the first one's, counts added up."""
    facts = dict(members[0].evidence)
    for key in ("num_overflowed", "num_saturated"):
        if key in facts:
            facts[key] = sum(each.evidence.get(key, 0) for each in members)
    return facts


def _round_too(left: list[Difference]) -> None:
    """Take few values that a round trip would give for one, where other tensors prove it."""
    proven = [each.evidence for each in left if each.found is _C.ROUNDED]
    for each in left:
        facts = each.maybe_rounded
        if facts and any(facts.items() <= other.items() for other in proven):
            each.found = _C.ROUNDED
            each.evidence |= facts


def _anew_too(left: list[Difference]) -> None:
    """Count small tensors among those drawn anew, where the large ones were."""
    large = [each for each in left if _num_elements(each) >= _SMALL]
    new = [each for each in large if each.found is _C.REINITIALISED]
    if not new or 2 * len(new) < len(large):
        return
    for each in left:
        if each.found in (_C.UNKNOWN, _C.RUN, _C.ELEMENT) and _num_elements(each) < _SMALL:
            each.found = _C.REINITIALISED


def _num_elements(each: Difference) -> int:
    return each.measured.total if each.measured else 0


def _rounding(left: list[Difference], around: Surroundings) -> list[Group]:
    """Changes of a few units of the last place, in several tensors, however few elements each."""
    tiny = [
        each
        for each in left
        if each.found in _MOVED
        and each.measured
        and (each.measured.tiny or each.found is _C.ROUNDING)
    ]
    chosen = set(map(id, tiny))
    others = [each for each in left if each.found is _C.TRAINING and id(each) not in chosen]
    if others or len(tiny) < _SEVERAL or _counters(left, around):
        return []
    members = _take(left, lambda each: id(each) in chosen)
    total = sum(each.measured.num_elements for each in members if each.measured)
    why = (
        f"{total} elements of {len(members)} tensors differ by no more than rounding makes of "
        "their largest values"
    )
    return [Group(found=_C.ROUNDING, differences=members, why=why)]


def _training(left: list[Difference], around: Surroundings) -> list[Group]:
    """One step of an optimizer, or many: everything that it moves."""
    counters = _counters(left, around)
    movers = [
        each
        for each in left
        if not is_statistic(each.name)
        and (each.found is _C.TRAINING or (counters and each.found is _C.ROUNDING))
    ]
    state = [each for each in left if of_optimizer(each.name) and not is_counter(each.name)]
    if not movers and not (counters and state):
        return []
    reach = max((each.measured.max_tame for each in movers if each.measured), default=0.0)

    weights = [each for each in left if is_trained(each.name)]
    most = 2 * len([each for each in movers if is_trained(each.name)]) > len(weights)

    def explained(each: Difference) -> bool:
        if is_statistic(each.name):
            return each.found in _MOVED and not _impossible(each)
        if is_counter(each.name) or each.found in (_C.TRAINING, _C.ROUNDING):
            return True
        if each.found not in _MOVED or each.elements:
            return False
        if of_optimizer(each.name):
            # What began at zero moves in one element by all of its bits, and not by a few.
            few = each.found is _C.ELEMENT and len(each.evidence.get("bits", ())) <= _FEW_BITS
            return not (each.measured and each.measured.num_lost) and not few
        if each.found is _C.SCALE:
            # Weight decay where no gradient arrived.
            return bool(0.9 <= each.evidence["factor"] < 1.0)
        m = each.measured
        if m is None or m.stands_out or m.num_zeroed == m.num_elements:
            return False
        if each.found is _C.REINITIALISED:
            return m.total < _SMALL
        whole = most or (m.total < _SMALL and m.share > 0.5)
        return m.max_abs <= _FURTHER * reach or (whole and each.found is _C.UNKNOWN)

    members = _take(left, explained)
    if not members:
        return []
    trained = [each for each in members if is_trained(each.name)]
    still = sum(is_trained(a.name) for a, _ in around.pairs) - len(trained)
    facts: dict[str, Any] = {"num_moved": len(trained), "num_still": max(still, 0)}
    sizes = [each.measured.relative for each in trained if each.measured and each.measured.sum_aa]
    if sizes:
        facts["relative_median"] = sorted(sizes)[len(sizes) // 2]
    if counters:
        facts["counters"] = counters[:16]
    why = f"{len(trained)} trained tensors moved a little in no other way than training moves them"
    if not trained:
        why = f"{len(members)} tensors of optimizer state moved"
    if still > 0 and trained:
        why += f", {still} stood still"
    if counters:
        first = counters[0]
        why += f"; {first['name']} went from {first['before']} to {first['after']}"
    members.sort(key=lambda each: -(each.measured.relative if each.measured else 0.0))
    members.sort(key=lambda each: not is_trained(each.name))
    return [Group(found=_C.TRAINING, differences=members, why=why, evidence=facts)]


def _counters(left: Sequence[Difference], around: Surroundings) -> list[dict[str, Any]]:
    """Return the counters that moved, if all of them moved the same way."""
    found = []
    for each in left:
        m = each.measured
        if is_counter(each.name) and m and m.changed and m.total == 1:
            change = m.changed.changes[0]
            found.append((each.name, change.before, change.after))
    found += [
        (key, before, after)
        for key, before, after in around.values
        if is_counter(key) and isinstance(before, int | float) and isinstance(after, int | float)
    ]
    signs = {_real(after) > _real(before) for _, before, after in found}
    if len(signs) != 1:
        return []
    return [
        {"name": name, "before": json_number(before), "after": json_number(after)}
        for name, before, after in found
    ]


def _real(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _statistics(left: list[Difference]) -> list[Group]:
    """BatchNorm statistics that moved, where nothing else of the model did."""
    for each in left:
        wide = each.found in _MOVED and each.found is not _C.ELEMENT
        if is_statistic(each.name) and wide and _impossible(each):
            each.found = _C.RUN
            each.why = "holds what no batch gives: values not finite, or a variance below zero"
    if not any(is_statistic(each.name) and each.found in _MOVED for each in left):
        return []
    many = sum(is_statistic(each.name) for each in left) > 1
    members = _take(
        left,
        lambda each: (
            is_statistic(each.name)
            and each.found in _MOVED
            and not _impossible(each)
            and (many or each.found is not _C.ELEMENT)
        ),
    )
    if not members:
        return []
    why = f"the running statistics of normalisation layers moved ({len(members)} buffers)"
    if not any(is_trained(each.name) for each in left):
        why += " and no weight did: batches were seen in training mode, without an update"
    return [Group(found=_C.STATISTICS, differences=members, why=why)]


def _impossible(each: Difference) -> bool:
    """Return whether a statistic cannot be: not finite, or a variance below zero."""
    m = each.measured
    if m is None:
        return False
    poisoned = m.stands_out and m.max_abs > _POISON * m.max_a
    negative = each.name.endswith("running_var") and m.least_b < 0
    return m.num_lost > 0 or negative or poisoned


def _pages(left: list[Difference]) -> list[Group]:
    """Join neighbours in a file that one lost or foreign page hit."""
    hit = {_C.PAGE, _C.ZEROS, _C.RUN, _C.UNKNOWN, _C.ELEMENT}
    placed = sorted(
        (each for each in left if each.found in hit and each.file_range and not each.elements),
        key=lambda each: (each.b.path if each.b else "", each.file_range or (0, 0)),
    )
    chains: list[list[Difference]] = []
    for each in placed:
        last = chains[-1][-1] if chains else None
        if last is not None and _touch(last, each):
            chains[-1].append(each)
        else:
            chains.append([each])
    groups = []
    for chain in chains:
        pages = [each for each in chain if each.found is _C.PAGE]
        lost = pages or [each for each in chain if each.found is _C.ZEROS]
        if not lost or (not pages and len(chain) == 1):
            continue
        if not pages and any(each.found is not _C.ZEROS for each in chain):
            continue
        spans = [each.file_range for each in chain if each.file_range]
        facts = {**lost[0].evidence, "byte_range": [spans[0][0], spans[-1][1]]}
        why = lost[0].why if len(chain) == 1 else f"{lost[0].why}; it spans {len(chain)} tensors"
        found = _C.PAGE if pages else _C.ZEROS
        groups.append(Group(found=found, differences=chain, why=why, evidence=facts))
        gone = set(map(id, chain))
        left[:] = [each for each in left if id(each) not in gone]
    return groups


def _touch(one: Difference, other: Difference) -> bool:
    if one.b is None or other.b is None or one.b.path != other.b.path:
        return False
    if one.b.offset is None or other.b.offset is None:
        return False
    assert one.file_range
    assert other.file_range
    ends = one.b.offset + one.b.num_bytes - one.file_range[1] < _GAP_BYTES
    begins = other.file_range[0] - other.b.offset < _GAP_BYTES
    near = other.b.offset - (one.b.offset + one.b.num_bytes) < _GAP_BYTES
    return ends and begins and near
