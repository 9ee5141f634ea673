"""Which tensors of two sides belong together: by name, across files, prefixes and renamings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.core.verdict import Skipped
from everybit.diff.classes import DifferenceClass
from everybit.diff.classify import Difference
from everybit.diff.names import align, likely_prefix
from everybit.diff.partners import Partners, of_interest
from everybit.diff.roles import is_recomputed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.diff.stored import StoredTensor

_C = DifferenceClass

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
    gone_a, gone_b = {id(a) for a, _ in found}, {id(b) for _, b in found}
    out.only_a = [each for each in out.only_a if id(each) not in gone_a]
    out.only_b = [each for each in out.only_b if id(each) not in gone_b]


def explain_alone(out: Matching) -> list[Difference]:
    """Return differences for what has no counterpart; tied tensors are noted and left out.

    A tensor whose bytes stand under another name in the other file was renamed; where one bit of
    the name differs, the name is damaged.
    """
    found = _renamed(out)
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


def _renamed(out: Matching) -> list[Difference]:
    if not out.only_a or not out.only_b:
        return []
    found: list[Difference] = []
    partners = Partners(of_interest(out.only_b, out.only_a))
    pairs: list[Pair] = []
    for a in out.only_a:
        b = partners.find(a)
        if b is None or any(b is taken for _, taken in pairs):
            continue
        pairs.append((a, b))
        bits = _flipped_bits(a.name, b.name)
        damaged = bits == 1
        found.append(
            Difference(
                name=a.name,
                a=a,
                b=b,
                found=_C.NAME_DAMAGED if damaged else _C.RENAMED,
                why=f"{'one bit of the name differs: ' if damaged else ''}{b.name!r} in B holds "
                "the same bytes",
                evidence={"name_a": a.name, "name_b": b.name, "name_bits": bits},
            )
        )
    gone = {id(each) for pair in pairs for each in pair}
    out.only_a = [each for each in out.only_a if id(each) not in gone]
    out.only_b = [each for each in out.only_b if id(each) not in gone]
    return found


def _flipped_bits(one: str, other: str) -> int | None:
    """Return how many bits differ between two names of one length, None for other lengths."""
    left, right = one.encode(), other.encode()
    if len(left) != len(right):
        return None
    return sum((x ^ y).bit_count() for x, y in zip(left, right, strict=True))
