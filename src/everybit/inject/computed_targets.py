"""What a model computes: the modules whose results, gradients and kept activations can be hit."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everybit.core.computed_fault import ComputedKind
from everybit.inject.backward import CallGraph, edges_into
from everybit.inject.targets import unwrapped
from everybit.inject.wrong_result import memory_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedTarget:
    """One thing that a module computes.

    Attributes:
        kind: What it is.
        module: Qualified name of the module; "" for the root.
        parameter: state_dict key, of the gradient of a parameter.
        dtype: Canonical dtype name.
        num_elements: Of one call.
        width: Bits of an element.
    """

    kind: ComputedKind
    module: str
    parameter: str = ""
    dtype: str
    num_elements: int
    width: int


def list_computed_targets(root: nn.Module, call: Callable[[], object]) -> list[ComputedTarget]:
    """Call the model once and list what its modules compute, in the order of execution.

    A module that hands on what it was given, or what a child returned, computes nothing of its
    own and is left out, so that each result is listed once.

    Args:
        root: The model.
        call: Calls it as training does, with gradients enabled; moves random streams and
            statistics as such a call does.
    """
    model = unwrapped(root)
    names = {id(p): key for key, p in reversed([*model.named_parameters()])}
    weights = {memory_of(t) for t in (*model.parameters(), *model.buffers())}
    found: dict[tuple[str, ...], ComputedTarget] = {}
    handed_on: set[int] = set()
    kept: list[Any] = []  # Storages must not be given to others while addresses are compared.
    starts: dict[int, tuple[Any, dict[int, int]]] = {}

    def add(kind: ComputedKind, name: str, tensor: Tensor, parameter: str = "") -> None:
        target = ComputedTarget(
            kind=kind,
            module=name,
            parameter=parameter,
            dtype=str(tensor.dtype).removeprefix("torch."),
            num_elements=tensor.numel(),
            width=8 * tensor.element_size(),
        )
        found.setdefault((kind, name, parameter), target)

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        given = (args, kwargs)
        kept.append(given)
        versions = {memory_of(t): t._version for t in tensors_in(given)}
        starts[id(module)] = (edges_into(given), versions)

    def after(name: str, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        edges, versions = starts.pop(id(module))
        kept.append(result)
        own = [
            t
            for t in tensors_in(result)
            if versions.get(memory_of(t)) != t._version
            and memory_of(t) not in handed_on
            and memory_of(t) not in weights
        ]
        handed_on.update(memory_of(t) for t in tensors_in(result))
        if not own:
            return
        add(ComputedKind.ACTIVATION, name, own[0])
        graph = CallGraph(edges, result, names)
        mine = {id(parameter) for parameter in module.parameters(recurse=False)}
        for edge in graph.parameter_edges():
            parameter = model.get_parameter(edge.parameter)
            if id(parameter) in mine:
                add(ComputedKind.PARAMETER_GRADIENT, name, parameter, edge.parameter)
        if not any(True for _ in module.children()):
            add_whole_backward(name, graph, (args, kwargs))

    def add_whole_backward(name: str, graph: CallGraph, given: Any) -> None:
        taking = [t for t in tensors_in(given) if t.requires_grad]
        if graph.input_edges and taking:
            add(ComputedKind.INPUT_GRADIENT, name, taking[0])
        never = weights | {memory_of(t) for t in tensors_in(given) if not t.requires_grad}
        for saved in graph.saved(never)[:1]:
            add(ComputedKind.SAVED, name, saved.value)

    with ExitStack() as stack:
        for name, module in model.named_modules():
            first = module.register_forward_pre_hook(before, with_kwargs=True)
            last = module.register_forward_hook(
                lambda *given, name=name: after(name, *given), with_kwargs=True
            )
            stack.callback(first.remove)
            stack.callback(last.remove)
        call()
    return list(found.values())
