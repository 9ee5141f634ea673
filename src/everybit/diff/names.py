"""Pair the names of two sides: equal names, or names under one constant prefix.

Wrappers put a prefix before every name (`module.` by DDP, `_orig_mod.` by compile, `model.` by
checkpoints). One such prefix is seen through where it maps all names of one side; anything less
is a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where several prefixes would do, the one that is named first here, else the shortest.
USUAL: Final = ("model.", "module.", "_orig_mod.", "state_dict.", "model_state_dict.")
_SEPARATOR: Final = "::"
#: Names from which prefixes are guessed, and how many of these are tried.
_TRIED: Final = 4
_MAX_CANDIDATES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """How the names of two sides pair up.

    Attributes:
        pairs: Places in A and in B of names that belong together, in A's order.
        only_a: Names of A without a counterpart.
        only_b: Names of B without a counterpart.
        outside: Names beside the prefix, on the side that carries it: not asked about.
        prefix_a: The prefix that A's names carry beyond B's, if any.
        prefix_b: The prefix that B's names carry beyond A's, if any.
    """

    pairs: tuple[tuple[int, int], ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    prefix_a: str = ""
    prefix_b: str = ""

    @property
    def note(self) -> str:
        """What people should know about the pairing; empty where names are simply equal."""
        for side, prefix in (("A", self.prefix_a), ("B", self.prefix_b)):
            if prefix:
                return f"{side}'s names carry the prefix {prefix!r}"
        return ""


def align(names_a: Sequence[str], names_b: Sequence[str]) -> Alignment:
    """Pair two lists of unique names.

    >>> align(["module.w", "module.b"], ["w", "b"]).prefix_a
    'module.'
    >>> align(["w", "b"], ["w"]).only_a
    ('b',)
    """
    if tuple(names_a) == tuple(names_b):
        return Alignment(pairs=tuple((place, place) for place in range(len(names_a))))
    set_a, set_b = set(names_a), set(names_b)
    if not (set_a <= set_b or set_b <= set_a):
        prefix = _prefix(names_a, set_a, names_b)
        if prefix:
            return _under(prefix, names_a, names_b, carrier="A")
        prefix = _prefix(names_b, set_b, names_a)
        if prefix:
            return _under(prefix, names_a, names_b, carrier="B")
    return _pair(names_a, names_b, names_a, names_b)


def _prefix(long: Sequence[str], long_set: set[str], short: Sequence[str]) -> str:
    """Return the prefix that maps all of `short` into `long`, or ""."""
    if not short:
        return ""
    first = _parameter(short[0])
    candidates = {
        parameter[: -len(first)]
        for name in long
        if (parameter := _parameter(name)).endswith("." + first)
    }
    fitting = [
        prefix
        for prefix in candidates
        if all(_with_prefix(prefix, name) in long_set for name in short)
    ]
    usual = [prefix for prefix in USUAL if prefix in fitting]
    return usual[0] if usual else min(fitting, key=lambda text: (len(text), text), default="")


def _under(
    prefix: str, names_a: Sequence[str], names_b: Sequence[str], *, carrier: str
) -> Alignment:
    def inside(names: Sequence[str]) -> list[str]:
        return [name for name in names if _parameter(name).startswith(prefix)]

    if carrier == "A":
        kept = set(inside(names_a))
        bare = [_without_prefix(prefix, name) if name in kept else "" for name in names_a]
        found = _pair(bare, names_b, names_a, names_b)
        outside = tuple(name for name in found.only_a if name not in kept)
        only = tuple(name for name in found.only_a if name in kept)
        return Alignment(
            pairs=found.pairs,
            only_a=only,
            only_b=found.only_b,
            outside=outside,
            prefix_a=prefix,
        )
    kept = set(inside(names_b))
    bare = [_without_prefix(prefix, name) if name in kept else "" for name in names_b]
    found = _pair(names_a, bare, names_a, names_b)
    outside = tuple(name for name in found.only_b if name not in kept)
    only = tuple(name for name in found.only_b if name in kept)
    return Alignment(
        pairs=found.pairs,
        only_a=found.only_a,
        only_b=only,
        outside=outside,
        prefix_b=prefix,
    )


def _pair(
    keys_a: Sequence[str], keys_b: Sequence[str], names_a: Sequence[str], names_b: Sequence[str]
) -> Alignment:
    place_b = {key: place for place, key in enumerate(keys_b) if key}
    pairs = tuple(
        (place, place_b[key]) for place, key in enumerate(keys_a) if key and key in place_b
    )
    paired_a = {a for a, _ in pairs}
    paired_b = {b for _, b in pairs}
    return Alignment(
        pairs=pairs,
        only_a=tuple(name for place, name in enumerate(names_a) if place not in paired_a),
        only_b=tuple(name for place, name in enumerate(names_b) if place not in paired_b),
    )


# A table name of optimizer state is `optimizer::tensor::parameter`; the prefix is inside it.
def _parameter(name: str) -> str:
    return name.rpartition(_SEPARATOR)[2]


def _with_prefix(prefix: str, name: str) -> str:
    head, mark, parameter = name.rpartition(_SEPARATOR)
    return f"{head}{mark}{prefix}{parameter}"


def _without_prefix(prefix: str, name: str) -> str:
    head, mark, parameter = name.rpartition(_SEPARATOR)
    return f"{head}{mark}{parameter.removeprefix(prefix)}"


def likely_prefix(long: Sequence[str], short: Sequence[str]) -> str:
    """Return the prefix that maps at least half of `short` into `long`, or "".

    For sides that also lack a tensor or two, so that no prefix maps all.

    >>> likely_prefix(["module.a.w", "module.b.w"], ["a.w", "b.w", "c.w"])
    'module.'
    """
    if not short or not long:
        return ""
    known = set(long)
    candidates = dict.fromkeys(USUAL)
    for name in short[:_TRIED]:
        for other in long:
            if other.endswith("." + name):
                candidates.setdefault(other[: -len(name)])
    hits = {
        prefix: sum(prefix + name in known for name in short)
        for prefix in list(candidates)[:_MAX_CANDIDATES]
    }
    best = max(hits, key=lambda prefix: (hits[prefix], -len(prefix)), default="")
    return best if best and 2 * hits[best] >= len(short) else ""
