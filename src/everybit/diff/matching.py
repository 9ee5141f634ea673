"""Which tensors of two sides belong together: by name, across files, prefixes and renamings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.core.verdict import Skipped
from everybit.diff.classes import DifferenceClass
from everybit.diff.difference import Difference
from everybit.diff.names import align, likely_prefix
from everybit.diff.partners import Partners, holds_same, of_interest
from everybit.diff.roles import is_recomputed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.diff.stored import StoredTensor

_C = DifferenceClass
#: Changes of a prefix that are tried for what equal bytes do not pair.
_MAX_CHANGES = 8

Pair = tuple["StoredTensor", "StoredTensor"]


@dataclass(slots=True, kw_only=True)
class Matching:
    """Tensors that belong together, and those that have nobody.

    Attributes:
        pairs: Tensors of A with their counterparts in B.
        only_a: Tensors of A without one.
        only_b: Tensors of B without one.
        notes: Remarks on how they were paired.
        prefixes: `(side, prefix)` that were seen through.
        moved: How many pairs lie in files of different names.
        tied: `(side, name, partner)` of tensors that repeat one that was compared.
    """

    pairs: list[Pair] = field(default_factory=list)
    only_a: list[StoredTensor] = field(default_factory=list)
    only_b: list[StoredTensor] = field(default_factory=list)
    notes: list[Skipped] = field(default_factory=list)
    prefixes: list[tuple[str, str]] = field(default_factory=list)
    moved: int = 0
    tied: list[tuple[str, str, str]] = field(default_factory=list)


def match(files: Sequence[tuple[Sequence[StoredTensor], Sequence[StoredTensor]]]) -> Matching:
    """Pair the tensors of files that belong together, then what is left across files."""
    out = Matching()
    for a, b in files:
        _match_file(a, b, out)
    _across_files(out)
    _by_likely_prefix(out)
    return out


def _match_file(a: Sequence[StoredTensor], b: Sequence[StoredTensor], out: Matching) -> None:
    found = align([each.name for each in a], [each.name for each in b])
    if found.note:
        side, prefix = ("A", found.prefix_a) if found.prefix_a else ("B", found.prefix_b)
        _note_prefix(out, side, prefix)
    outside = set(found.outside)
    if outside:
        side, prefix = ("A", found.prefix_a) if found.prefix_a else ("B", found.prefix_b)
        why = f"{len(outside)} of {side} do not lie under {prefix!r}: beside the model"
        out.notes.append(Skipped(what="tensors", why=why, promised=False))
    out.pairs += [(a[at], b[there]) for at, there in found.pairs]
    only_a, only_b = set(found.only_a), set(found.only_b)
    out.only_a += [each for each in a if each.name in only_a and each.name not in outside]
    out.only_b += [each for each in b if each.name in only_b and each.name not in outside]


def _note_prefix(out: Matching, side: str, prefix: str) -> None:
    if (side, prefix) in out.prefixes:
        return
    out.prefixes.append((side, prefix))
    why = f"{side}'s names carry the prefix {prefix!r}; paired without it"
    out.notes.append(Skipped(what="names", why=why, promised=False))


def _across_files(out: Matching) -> None:
    """Pair what has the same name in another file, where that name stands once on each side."""
    counts = [Counter(each.name for each in side) for side in (out.only_a, out.only_b)]
    there = {each.name: each for each in out.only_b if counts[1][each.name] == 1}
    found = [
        (each, there[each.name])
        for each in out.only_a
        if counts[0][each.name] == 1 and each.name in there
    ]
    _pair(out, found)
    out.moved = len(found)


def _by_likely_prefix(out: Matching) -> None:
    """Pair what is left under the prefix that maps most of it."""
    names = [[each.name for each in side] for side in (out.only_a, out.only_b)]
    if any(len(set(side)) != len(side) for side in names):
        return
    for side, (long, short) in (("A", (0, 1)), ("B", (1, 0))):
        prefix = likely_prefix(names[long], names[short])
        if not prefix:
            continue
        _note_prefix(out, side, prefix)
        place = {each.name: each for each in (out.only_a, out.only_b)[long]}
        mapped = [
            (place[prefix + each.name], each)
            for each in (out.only_a, out.only_b)[short]
            if prefix + each.name in place
        ]
        _pair(out, mapped if side == "A" else [(b, a) for a, b in mapped])
        return


def _pair(out: Matching, found: Sequence[Pair]) -> None:
    if not found:
        return
    out.pairs += found
    _take(out, found)


def explain_alone(out: Matching) -> list[Difference]:
    """Return differences for what has no counterpart; tied tensors are noted and left out."""
    found: list[Difference] = []
    for side, tensors, number in (("A", out.only_a, 0), ("B", out.only_b, 1)):
        if not tensors:
            continue
        own = [pair[number] for pair in out.pairs]
        storages = {each.storage: each.name for each in own if each.storage and each.num_bytes}
        partners = Partners(of_interest(own, tensors))
        for each in tensors:
            same = storages.get(each.storage) if each.num_bytes and each.storage else None
            equal = None if same else partners.find(each)
            partner = same or (equal.name if equal else "")
            if partner:
                out.tied.append((side, each.name, partner))
                why = f"in {side} only; equal to {partner}, which was compared (tied)"
                out.notes.append(Skipped(what=f"tensor {each.name}", why=why, promised=False))
                continue
            harmless = is_recomputed(each.name)
            found.append(
                Difference(
                    name=each.name,
                    a=each if side == "A" else None,
                    b=each if side == "B" else None,
                    found=_C.MISSING if side == "A" else _C.EXTRA,
                    why=f"in {side} only" + (", a buffer that models compute" if harmless else ""),
                    evidence={
                        "only_in": side,
                        "dtype": each.dtype,
                        "shape": list(each.shape),
                        "harmless": harmless,
                    },
                )
            )
    return found


def find_renamed(out: Matching) -> list[Difference]:
    """Return what stands under another name in the other file, and pair it.

    Equal bytes tell, where no other tensor has them. Where these show that one prefix was put in
    the place of another, the rest is paired by that: small tensors whose bytes say nothing, and
    those that were also changed, which are compared.
    """
    if not out.only_a or not out.only_b:
        return []
    certain = _by_bytes(out)
    _take(out, certain)
    equal = list(certain)
    mapped = _by_changed_prefix(out, certain)
    _take(out, mapped)
    for a, b in mapped:
        if a.dtype == b.dtype and holds_same(a, b):
            equal.append((a, b))
        else:
            why = f"paired with {b.name} in B, as others that were renamed so"
            out.notes.append(Skipped(what=f"tensor {a.name}", why=why, promised=False))
            out.pairs.append((a, b))
    return [_renamed(a, b) for a, b in equal]


def _by_bytes(out: Matching) -> list[Pair]:
    partners = Partners(of_interest(out.only_b, out.only_a))
    backward = Partners(of_interest(out.only_a, out.only_b))
    places = {id(each): place for place, each in enumerate(out.only_a)}
    found: list[Pair] = []
    ambiguous: list[StoredTensor] = []
    taken: set[int] = set()
    for a in out.only_a:
        b = partners.find(a)
        if b is None:
            continue
        if partners.num_like(a) > 1 or backward.num_like(a) > 1:
            ambiguous.append(a)
            continue
        taken.add(id(b))
        found.append((a, b))
    changes = _changes(found)
    there = {each.name: each for each in out.only_b}
    for a in ambiguous:
        like = [each for each in partners.like(a) if id(each) not in taken]
        mapped = [there.get(name) for name in _mapped(a.name, changes)]
        b = next((each for each in like if any(each is m for m in mapped)), None)
        b = b or next(iter(like), None)
        if b is not None and holds_same(a, b):
            taken.add(id(b))
            found.append((a, b))
    return sorted(found, key=lambda pair: places[id(pair[0])])


def _by_changed_prefix(out: Matching, certain: Sequence[Pair]) -> list[Pair]:
    """Return pairs among what is left, by the changes of prefix that the certain ones show."""
    changes = _changes(certain)
    there = {each.name: each for each in out.only_b}
    found: list[Pair] = []
    for a in out.only_a:
        for name in _mapped(a.name, changes):
            b = there.get(name)
            if b is not None and b.shape == a.shape:
                found.append((a, there.pop(name)))
                break
    return found


def _changes(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """Return what was put in the place of what at the beginning of names, the usual one first."""
    counts: Counter[tuple[str, str]] = Counter()
    for a, b in pairs:
        one, other = a.name.split("."), b.name.split(".")
        same = 0
        while same < min(len(one), len(other)) and one[-1 - same] == other[-1 - same]:
            same += 1
        if same:
            heads = (".".join(each[: len(each) - same]) for each in (one, other))
            old, new = (f"{head}." if head else "" for head in heads)
            counts[old, new] += 1
    return [change for change, _ in counts.most_common(_MAX_CHANGES)]


def _mapped(name: str, changes: Sequence[tuple[str, str]]) -> list[str]:
    return [new + name[len(old) :] for old, new in changes if name.startswith(old)]


def _take(out: Matching, pairs: Sequence[Pair]) -> None:
    gone = {id(each) for pair in pairs for each in pair}
    out.only_a = [each for each in out.only_a if id(each) not in gone]
    out.only_b = [each for each in out.only_b if id(each) not in gone]


def _renamed(a: StoredTensor, b: StoredTensor) -> Difference:
    bits = _flipped_bits(a.name, b.name)
    damaged = bits == 1
    return Difference(
        name=a.name,
        a=a,
        b=b,
        found=_C.NAME_DAMAGED if damaged else _C.RENAMED,
        why=f"{'one bit of the name differs: ' if damaged else ''}{b.name!r} in B holds the same "
        "bytes",
        evidence={"name_a": a.name, "name_b": b.name, "name_bits": bits},
    )


def _flipped_bits(one: str, other: str) -> int | None:
    """Return how many bits differ between two names of one length, None for other lengths."""
    left, right = one.encode(), other.encode()
    if len(left) != len(right):
        return None
    return sum((x ^ y).bit_count() for x, y in zip(left, right, strict=True))
