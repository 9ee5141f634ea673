"""The autograd graph of one call: its nodes in the order of a walk, and hooks on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

    Node = Any

#: An edge that leads nowhere: no gradient is wanted there.
NOWHERE: Final = -2
#: An edge that leads out of the call: to a parameter, an input, or what was there before it.
OUT: Final = -1


class DifferentPathError(Exception):
    """The repeated call recorded other operations than the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphShape:
    """A graph without its nodes.

    Attributes:
        names: Names of the operations, in the order of the walk.
        edges: For each, where its edges lead: another node's place, `OUT` or `NOWHERE`.
        roots: The places of the outputs' nodes, `OUT` for an output that has none in this call.
    """

    names: tuple[str, ...]
    edges: tuple[tuple[int, ...], ...]
    roots: tuple[int, ...]


@dataclass(slots=True, eq=False)
class CallGraph:
    """The nodes of a call.

    Attributes:
        shape: How they hang together.
        nodes: The nodes, in the order of the shape.
        out: `(node's place, edge, target, its input)` of each edge that leads out.
    """

    shape: GraphShape
    nodes: list[Node]
    out: list[tuple[int, int, Node, int]] = field(default_factory=list)

    def places(self) -> dict[int, int]:
        """Return the place of each node by identity."""
        return {id(node): place for place, node in enumerate(self.nodes)}


def graph_of(outputs: Sequence[torch.Tensor], first: int) -> CallGraph:
    """Walk from the outputs of a call over what it recorded.

    Args:
        outputs: Tensors that the call returned.
        first: Autograd's sequence number as the call began: older nodes are not its own.
    """
    nodes: list[Node] = []
    edges: list[list[int]] = []
    out: list[tuple[int, int, Node, int]] = []
    places: dict[int, int] = {}

    def enter(node: Node) -> int:
        if node is None or not _is_inside(node, first):
            return OUT
        known = places.get(id(node))
        if known is None:
            known = places[id(node)] = len(nodes)
            nodes.append(node)
            edges.append([])
        return known

    roots = tuple(enter(tensor.grad_fn) for tensor in outputs)
    at = 0
    while at < len(nodes):  # Breadth first: every node is given a place once.
        for edge, (target, number) in enumerate(nodes[at].next_functions):
            place = NOWHERE if target is None else enter(target)
            edges[at].append(place)
            if place == OUT:
                out.append((at, edge, target, number))
        at += 1
    shape = GraphShape(
        names=tuple(node.name() for node in nodes),
        edges=tuple(map(tuple, edges)),
        roots=roots,
    )
    return CallGraph(shape, nodes, out)


def follow(shape: GraphShape, outputs: Sequence[torch.Tensor], first: int) -> CallGraph:
    """Walk a repeated call's graph beside the shape of the first.

    Where either leaves the call, both do: a cast of a weight may be autocast's own from before.

    Raises:
        DifferentPathError: It recorded other operations.
    """
    nodes: dict[int, Node] = {}
    out: list[tuple[int, int, Node, int]] = []
    stack: list[tuple[int, Node]] = []

    def pair(place: int, node: Node) -> bool:
        """Whether the node stands at the place, within this call too."""
        if node is None or not _is_inside(node, first):
            return False
        known = nodes.get(place)
        if known is None:
            if node.name() != shape.names[place]:
                raise DifferentPathError(f"{shape.names[place]}, then {node.name()}")
            nodes[place] = node
            stack.append((place, node))
        elif known is not node:
            raise DifferentPathError(f"{shape.names[place]} was used in another way")
        return True

    if len(outputs) != len(shape.roots):
        raise DifferentPathError("another number of outputs")
    for place, tensor in zip(shape.roots, outputs, strict=True):
        if place >= 0 and not pair(place, tensor.grad_fn):
            raise DifferentPathError("an output without a graph")
    while stack:
        place, node = stack.pop()
        following = node.next_functions
        if len(following) != len(shape.edges[place]):
            raise DifferentPathError(f"{shape.names[place]} with other inputs")
        for edge, ((target, number), then) in enumerate(
            zip(following, shape.edges[place], strict=True)
        ):
            if (target is None) != (then == NOWHERE):
                raise DifferentPathError(f"{shape.names[place]} with other inputs")
            if target is not None and (then == OUT or not pair(then, target)):
                out.append((place, edge, target, number))
    whole = [nodes.get(place) for place in range(len(shape.names))]
    return CallGraph(shape, whole, out)


def entries_from(
    roots: Iterable[torch.Tensor], graphs: Sequence[CallGraph]
) -> list[set[tuple[int, int]]]:
    """Find where gradients come into calls from outside, besides their outputs.

    Walks from what `backward` is given over everything.

    Returns:
        For each graph, `(node's place, its input)`.
    """
    known = [graph.places() for graph in graphs]
    owner = {node: index for index, places in enumerate(known) for node in places}
    found: list[set[tuple[int, int]]] = [set() for _ in graphs]
    stack = [tensor.grad_fn for tensor in roots if tensor.grad_fn is not None]
    kept = {id(node): node for node in stack}
    while stack:
        node = stack.pop()
        mine = owner.get(id(node))
        for target, number in node.next_functions:
            if target is None:
                continue
            theirs = owner.get(id(target))
            if theirs is not None and theirs != mine:
                found[theirs].add((known[theirs][id(target)], number))
            if id(target) not in kept:
                kept[id(target)] = target
                stack.append(target)
    return found


def hook_nodes(
    graph: CallGraph, fired: Callable[[int, Sequence[torch.Tensor | None]], None]
) -> list[Any]:
    """Call `fired(place, gradients of the node's inputs)` behind each node of a graph.

    A gradient must not be kept: its parameter takes it over as it is when nobody else has it.

    Returns:
        The handles of the hooks.
    """

    def behind(place: int) -> Callable[[Any, Any], None]:
        def hook(grad_inputs: Any, _grad_outputs: Any) -> None:
            fired(place, grad_inputs)

        return hook

    return [
        node.register_hook(behind(place))
        for place, node in enumerate(graph.nodes)
        if node is not None
    ]


def _is_inside(node: Node, first: int) -> bool:
    # That of a parameter or another leaf has the highest number there is.
    return bool(first <= node._sequence_nr() < 1 << 63)
