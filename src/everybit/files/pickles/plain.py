"""Numbers, texts and the like in the containers of a pickle's result, by key path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import Call, DictNode, ListNode, Node, Persistent, Text, TupleNode

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Pickle

#: More values, or values nested deeper, are not read.
MAX_VALUES: Final = 20_000
_MAX_DEPTH: Final = 64
_SECOND_VISITS: Final = 2000
_MAX_TEXT: Final = 4096

Plain = None | bool | int | float | str


def collect_plain(pickle: Pickle) -> tuple[dict[str, Plain], bool]:
    """Return the plain values of a pickle's result by dotted key path, and whether these are all.

    Takes time linear in the pickle, however its containers share each other.
    """
    found: dict[str, Plain] = {}
    whole = True
    todo: list[tuple[Node, str, int]] = [(pickle.result, "", 0)]
    # A tree visits each container once; those that share each other would be visited for ever.
    budget = _SECOND_VISITS + 2 * pickle.num_nodes
    while todo:
        node, name, depth = todo.pop()
        if budget < 0 or len(found) >= MAX_VALUES or depth > _MAX_DEPTH:
            return found, False
        if isinstance(node, Text):
            node = node.data.decode("utf-8", "replace")
        if node is None or isinstance(node, bool | int | float | str):
            found[name] = node[:_MAX_TEXT] if isinstance(node, str) else node
            continue
        children = _children(node)
        if children is None:
            # What lies outside a torch pickle is a tensor or its storage.
            is_tensor = isinstance(node, Persistent) or (
                isinstance(node, Call) and _is_tensor(node)
            )
            whole = whole and is_tensor
            continue
        budget -= 1
        above = f"{name}." if name else ""
        todo += [(child, f"{above}{key}", depth + 1) for key, child in reversed(children)]
    return found, whole


def _children(node: Node) -> list[tuple[str, Node]] | None:
    """Return what a plain container holds, by key; None for anything else."""
    if isinstance(node, ListNode | TupleNode):
        return [(str(index), item) for index, item in enumerate(node.items)]
    if isinstance(node, DictNode) or (
        isinstance(node, Call) and node.name == "collections.OrderedDict"
    ):
        return [
            (str(key)[:_MAX_TEXT], value)
            for key, value in node.pairs
            if key is None or isinstance(key, bool | int | float | str)
        ]
    return None


def _is_tensor(call: Call) -> bool:
    return call.name.startswith(("torch._utils._rebuild_", "torch.nn.parameter."))
