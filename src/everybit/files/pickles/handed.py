"""Which names and results a pickle hands on as values, besides calling them itself.

A call in the pickle can be followed. A function that is handed to another one, or kept in an
object, may be called by that with anything: `softmax(x, y)` of torch calls `x.softmax(y)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.files.pickles.nodes import Call, DictNode, Global, ListNode, SetNode, TupleNode

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from everybit.files.pickles.nodes import Node, Pickle


def find_handed(pickle: Pickle, *, but_first_of: Container[str] = ()) -> frozenset[int]:
    """Return the `id` of each global and call that stands anywhere but in the place of a function.

    Takes time linear in the pickle.

    Args:
        pickle: The pickle.
        but_first_of: Names of functions whose first argument does not count.
    """
    handed: set[int] = set()
    seen: set[int] = set()
    todo = list(_given(pickle, but_first_of))
    while todo:
        node = todo.pop()
        if isinstance(node, (Global, Call)):
            handed.add(id(node))
        elif isinstance(node, (DictNode, ListNode, SetNode, TupleNode)) and id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, DictNode):
                todo += [part for pair in node.pairs for part in pair]
            else:
                todo += node.items
    return frozenset(handed)


def _given(pickle: Pickle, but_first_of: Container[str]) -> Iterator[Node]:
    """Yield what running code is given, and what the pickle returns."""
    yield pickle.result
    for call in pickle.calls:
        if call.name in but_first_of:
            yield from call.arguments[1:]
        else:
            yield call.args
        yield from (call.kwargs, call.state, *call.items)
        for pair in call.pairs:
            yield from pair
    for _, state in pickle.builds:
        yield state
    for touch in pickle.touches:
        yield from touch.items
    for outside in pickle.persistents:
        yield outside.id
