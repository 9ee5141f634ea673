"""Pair traced values of two runs: the same call of the same module, whatever wraps the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.trace_name import TraceName, parse_trace_name
from everybit.diff.names import Alignment, align

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_traced(names: Sequence[str]) -> bool:
    """Whether a table holds traced values (and not those of parameters)."""
    return bool(names) and parse_trace_name(names[0]) is not None


def align_traced(names_a: Sequence[str], names_b: Sequence[str]) -> Alignment:
    """Pair traced names of two sides by module, call and leaf.

    One constant prefix of the modules is seen through; what the wrapper itself gave has no
    counterpart and is left `outside`. Operations are left out where one side traced none.

    >>> align_traced(["()", "module()", "module.fc()"], ["()", "fc()"]).pairs
    ((1, 0), (2, 1))
    """
    if tuple(names_a) == tuple(names_b):
        return Alignment(pairs=tuple((at, at) for at in range(len(names_a))))
    parsed = [[parse_trace_name(name) for name in side] for side in (names_a, names_b)]
    modules = [
        list(dict.fromkeys(each.module for each in side if each is not None and each.module))
        for side in parsed
    ]
    by_module = align(*modules)
    prefixes = by_module.prefix_a, by_module.prefix_b
    keys = [
        [_key(each, prefix) for each in side] for side, prefix in zip(parsed, prefixes, strict=True)
    ]
    by_op = [any(each is not None and each.op for each in side) for side in parsed]
    place = {key: at for at, key in enumerate(keys[1]) if key is not None}
    pairs = tuple(
        (at, place[key]) for at, key in enumerate(keys[0]) if key is not None and key in place
    )
    paired = {at for at, _ in pairs}, {at for _, at in pairs}
    alone: list[list[str]] = [[], []]
    outside: list[str] = []
    for number, names in enumerate((names_a, names_b)):
        for at, name in enumerate(names):
            each = parsed[number][at]
            if at in paired[number]:
                continue
            if keys[number][at] is None or (each is not None and each.op and not all(by_op)):
                outside.append(name)
            else:
                alone[number].append(name)
    return Alignment(
        pairs=pairs,
        only_a=tuple(alone[0]),
        only_b=tuple(alone[1]),
        outside=tuple(outside),
        prefix_a=prefixes[0],
        prefix_b=prefixes[1],
    )


def _key(name: TraceName | None, prefix: str) -> TraceName | None:
    """Return a name without the prefix of its side; None for what lies outside the prefix."""
    if name is None or not prefix:
        return name
    if name.module == prefix.removesuffix("."):
        return replace(name, module="")
    if not name.module.startswith(prefix):
        return None
    return replace(name, module=name.module.removeprefix(prefix))
