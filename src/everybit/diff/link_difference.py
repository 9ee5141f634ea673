"""Compare what two runs recorded at one link of one step."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from everybit.core.link import Link
from everybit.core.observation import split_entry
from everybit.core.trace_name import parse_trace_name
from everybit.diff.names import Alignment, align
from everybit.diff.trace_names import align_traced, is_traced

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.core.observation import StepRecord, TensorTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDifference:
    """The values of one link that differ, or are there on one side only.

    Attributes:
        link: The link.
        differing: `(name, digest in A, digest in B)` in A's order.
        num_compared: Values that both sides have.
        num_parameters: Parameters among them, each with its optimizer state counted once.
        only_a: Names recorded in A only.
        only_b: Names recorded in B only.
        note: How the names were paired, where they are not simply equal.
        fact: A difference that is no digest (`the update was skipped in A only`), in words.
        optimizers_differ: The fact is that optimizers of different names stepped.
        traced: The values are what calls of modules gave, or the gradients of that.
    """

    link: Link
    differing: tuple[tuple[str, int, int], ...] = ()
    num_compared: int = 0
    num_parameters: int = 0
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    note: str = ""
    fact: str = ""
    optimizers_differ: bool = False
    traced: bool = False

    @property
    def parts(self) -> bool:
        """Whether anything differs."""
        return bool(self.differing or self.only_a or self.only_b or self.fact)


@lru_cache(maxsize=64)
def _aligned(names_a: tuple[str, ...], names_b: tuple[str, ...]) -> Alignment:
    if is_traced(names_a) and is_traced(names_b):
        return align_traced(names_a, names_b)
    return align(names_a, names_b)


def compare_tables(
    link: Link, a: Sequence[TensorTable], b: Sequence[TensorTable]
) -> LinkDifference:
    """Compare the tables of one link; several of them (several calls a step) pair up in order.

    Names of random streams that one side has not yet are no difference: a stream is recorded from
    its first use on.
    """
    differing: list[tuple[str, int, int]] = []
    only_a: list[str] = []
    only_b: list[str] = []
    num_compared = 0
    note = ""
    traced = any(is_traced(table.names) for table in (*a, *b))
    for one, other in zip(a, b, strict=False):
        words_a, words_b = one.words(), other.words()
        if one.names is other.names or one.names == other.names:
            num_compared += len(words_a)
            if words_a != words_b:
                differing += [
                    (name, word_a, word_b)
                    for name, word_a, word_b in zip(one.names, words_a, words_b, strict=True)
                    if word_a != word_b
                ]
            continue
        found = _aligned(one.names, other.names)
        num_compared += len(found.pairs)
        note = note or found.note
        differing += [
            (one.names[at], words_a[at], words_b[there])
            for at, there in found.pairs
            if words_a[at] != words_b[there]
        ]
        only_a += found.only_a
        only_b += found.only_b
        if not traced:
            only_a += found.outside if found.prefix_a else ()
            only_b += found.outside if found.prefix_b else ()
    only_a += [name for table in a[len(b) :] for name in table.names]
    only_b += [name for table in b[len(a) :] for name in table.names]
    if link is Link.RNG:
        only_a, only_b = [], []
    return LinkDifference(
        link=link,
        differing=tuple(_innermost_first(differing) if traced else differing),
        num_compared=num_compared,
        num_parameters=_num_parameters(a) if differing else 0,
        only_a=tuple(only_a),
        only_b=tuple(only_b),
        note=note,
        traced=traced,
    )


def _innermost_first(differing: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Put in front the innermost of the modules that gave the very tensor that differs first.

    What a model gives is mostly what its last module gave, and the gradient of that comes back to
    the model first: one tensor, on record under both names.

    >>> _innermost_first([("grad ()", 1, 2), ("grad head()", 1, 2), ("grad body()", 3, 4)])[0]
    ('grad head()', 1, 2)
    >>> _innermost_first([("grad ()", 1, 2), ("grad head()", 3, 4)])[0]
    ('grad ()', 1, 2)
    >>> _innermost_first([("head() aten.addmm#0", 1, 2), ("head()", 1, 2)])[0]
    ('head() aten.addmm#0', 1, 2)
    """
    front = differing[0] if differing else ("", 0, 0)
    outer = parse_trace_name(front[0])
    if outer is None or outer.op:  # an operation is within any module that gave its result
        return differing
    module = outer.module
    for each in differing[1:]:
        name = parse_trace_name(each[0])
        if name is None or name.op or each[1:] != front[1:]:
            continue
        if name.module.startswith(f"{module}." if module else ""):
            front, module = each, name.module
    if front is differing[0]:
        return differing
    return [front, *(each for each in differing if each is not front)]


def compare_steps(
    a: StepRecord, b: StepRecord, notes: set[str], untraced: set[str] | None = None
) -> tuple[list[LinkDifference], int]:
    """Compare two records of the same step.

    Args:
        a: The record of A.
        b: The record of B.
        notes: Takes up how names were paired.
        untraced: Takes up the sides that lack what the other traced by module.

    Returns:
        The links that differ, in causal order, and how many values were compared.
    """
    differences: list[LinkDifference] = []
    num_compared = 0
    for link, tables_a, tables_b in _grouped(a.tables, b.tables):
        if _equal(tables_a, tables_b):
            num_compared += sum(len(table.names) for table in tables_a)
            continue
        if not (tables_a and tables_b) and is_traced((tables_a or tables_b)[0].names):
            # Another level of tracing is no difference of the runs.
            if untraced is not None:
                untraced.add("B" if tables_a else "A")
            continue
        found = compare_tables(link, tables_a, tables_b)
        num_compared += found.num_compared
        notes |= {found.note} - {""}
        if found.parts:
            differences.append(found)
    num_compared += len(a.losses)
    for link, fact in _facts(a, b):
        same = next((each for each in differences if each.link is link), None)
        if same is not None:
            differences.remove(same)
        told = replace(
            same or LinkDifference(link=link),
            fact=fact,
            optimizers_differ=link is Link.UPDATE and a.optimizer != b.optimizer,
        )
        differences.append(told)
    # Stable: traced gradients stay in front of those of parameters.
    differences.sort(key=lambda difference: difference.link.position)
    return differences, num_compared


def _num_parameters(tables: Sequence[TensorTable]) -> int:
    return len({split_entry(name)["parameter"] for table in tables for name in table.names})


def _grouped(
    a: Sequence[TensorTable], b: Sequence[TensorTable]
) -> Iterator[tuple[Link, list[TensorTable], list[TensorTable]]]:
    """Yield the tables that belong together in causal order, traced gradients before others."""
    groups: dict[tuple[int, bool], tuple[Link, list[TensorTable], list[TensorTable]]] = {}
    for number, tables in enumerate((a, b), start=1):
        for table in tables:
            key = (table.link.position, not is_traced(table.names))
            group = groups.setdefault(key, (table.link, [], []))
            group[number].append(table)  # type: ignore[union-attr]  # 1 and 2 are the lists
    for key in sorted(groups):
        yield groups[key]


def _equal(a: Sequence[TensorTable], b: Sequence[TensorTable]) -> bool:
    return len(a) == len(b) and all(
        (one.names is other.names or one.names == other.names) and _same_words(one, other)
        for one, other in zip(a, b, strict=True)
    )


def _same_words(one: TensorTable, other: TensorTable) -> bool:
    bytes_a, bytes_b = (getattr(table.digests, "tobytes", None) for table in (one, other))
    if bytes_a is not None and bytes_b is not None:
        return bool(bytes_a() == bytes_b())
    return one.words() == other.words()


def _facts(a: StepRecord, b: StepRecord) -> list[tuple[Link, str]]:
    facts = []
    if len(a.losses) != len(b.losses):
        facts.append((Link.LOSS, f"{len(a.losses)} losses in A, {len(b.losses)} in B"))
    elif _bits(a.losses) != _bits(b.losses):
        facts.append((Link.LOSS, "the losses differ as numbers"))
    if a.optimizer != b.optimizer:
        names = [name or "no optimizer" for name in (a.optimizer, b.optimizer)]
        facts.append((Link.UPDATE, f"{names[0]} stepped in A, {names[1]} in B"))
    elif a.skipped != b.skipped:
        side = "A" if a.skipped else "B"
        facts.append((Link.UPDATE, f"the update was skipped in {side} only"))
    return facts


def _bits(losses: tuple[float, ...]) -> bytes:
    return struct.pack(f"<{len(losses)}d", *losses)
