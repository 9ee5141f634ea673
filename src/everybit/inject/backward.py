"""The part of the autograd graph that belongs to one call of a module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from everybit.inject.wrong_result import memory_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch.autograd.graph import Node

#: How saved tensors are called by the nodes of autograd.
_SAVED = "_saved_"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edge:
    """Where a gradient leaves a module's backward.

    Attributes:
        node: The operation that computes it.
        index: Which of its results.
        parameter: state_dict key of the parameter it is for; "" for the gradient of an input.
    """

    node: Node
    index: int
    parameter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Saved:
    """A tensor that an operation keeps for its backward."""

    node: Node
    name: str
    value: Tensor


class CallGraph:
    """The nodes between a call's outputs and its inputs.

    Args:
        inputs: What the module was given, taken with `edges_into` before the call: an operation in
            place changes what its input hangs on.
        result: What it returned.
        parameters: state_dict key by the identity of each parameter of the model.
    """

    def __init__(
        self, inputs: Iterable[tuple[Node, int]], result: Any, parameters: Mapping[int, str]
    ) -> None:
        self._parameters = parameters
        self._inputs = set(inputs)
        self._edges: list[Edge] = []
        self.nodes: list[Node] = []
        self._walk(result)

    @property
    def input_edges(self) -> list[Edge]:
        """Where gradients of the inputs are computed, in the order of the walk."""
        return [edge for edge in self._edges if not edge.parameter]

    def parameter_edges(self, parameter: str = "") -> list[Edge]:
        """Where gradients of parameters are computed; of one, or of all."""
        return [e for e in self._edges if e.parameter and parameter in ("", e.parameter)]

    def saved(self, never: set[int]) -> list[Saved]:
        """Return the tensors of numbers that are kept for the backward.

        Args:
            never: Addresses of storages to leave out: weights and batches are no activations.
        """
        return [saved for node in self.nodes for saved in _saved_of(node, never)]

    def _walk(self, result: Any) -> None:
        stack: list[Any] = [
            t.grad_fn
            for t in reversed(tensors_in(result))
            if t.grad_fn is not None and (t.grad_fn, t.output_nr) not in self._inputs
        ]
        known: set[Any] = set()
        while stack:
            node = stack.pop()
            if node in known:
                continue
            known.add(node)
            self.nodes.append(node)
            for index, (further, number) in enumerate(node.next_functions):
                if further is None:
                    continue
                variable = getattr(further, "variable", None)
                if (further, number) in self._inputs:
                    self._edges.append(Edge(node=node, index=index))
                elif variable is not None:
                    name = self._parameters.get(id(variable), "")
                    if name:
                        self._edges.append(Edge(node=node, index=index, parameter=name))
                else:
                    stack.append(further)


def edges_into(given: Any) -> list[tuple[Node, int]]:
    """Return what the tensors that a module is given hang on in the graph."""
    found = []
    for tensor in tensors_in(given):
        if tensor.requires_grad:
            edge = torch.autograd.graph.get_gradient_edge(tensor)
            found.append((edge.node, edge.output_nr))
    return found


def _saved_of(node: Any, never: set[int]) -> Iterator[Saved]:
    for name in dir(node):
        if not name.startswith(_SAVED):
            continue
        try:
            value = getattr(node, name)
        except (RuntimeError, AttributeError):
            continue  # Freed, or overwritten since.
        # A wrong index would make the kernel read elsewhere: numbers only.
        if (
            isinstance(value, Tensor)
            and value.numel()
            and (value.is_floating_point() or value.is_complex())
            and memory_of(value) not in never
        ):
            yield Saved(node=node, name=name, value=value)
