"""What a model computes: the modules whose results, gradients and kept activations can be hit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from everybit.core.computed_fault import ComputedKind
from everybit.inject.backward import CallGraph, edges_into
from everybit.inject.targets import unwrapped
from everybit.inject.wrong_result import memory_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn
    from torch.utils.hooks import RemovableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedTarget:
    """One thing that a module computes.

    Attributes:
        kind: What it is.
        module: Qualified name of the module; "" for the root.
        parameter: state_dict key, of the gradient of a parameter.
        dtype: Canonical dtype name.
        num_elements: Of one call.
    """

    kind: ComputedKind
    module: str
    parameter: str = ""
    dtype: str
    num_elements: int


def list_computed_targets(root: nn.Module, call: Callable[[], object]) -> list[ComputedTarget]:
    """Call the model once and list what its modules compute, in the order of execution.

    A module that hands on what it was given, or what a child returned, computes nothing of its
    own and is left out, so that each result is listed once.

    Args:
        root: The model.
        call: Calls it as training does, with gradients enabled; moves random streams and
            statistics as such a call does.
    """
    with ComputedListing(root) as listing:
        call()
    return listing.targets


class ComputedListing:
    """Lists what the modules of a model compute while it is called, as a context manager.

    Args:
        root: The model.
    """

    def __init__(self, root: nn.Module) -> None:
        self._model = unwrapped(root)
        parameters = reversed([*self._model.named_parameters()])
        self._names = {id(parameter): key for key, parameter in parameters}
        self._found: dict[tuple[str, ...], ComputedTarget] = {}
        self._handed_on: set[int] = set()
        # Storages must not be given to others while addresses are compared.
        self._kept: list[Any] = []
        self._starts: dict[int, tuple[Any, dict[int, int]]] = {}
        self._handles: list[RemovableHandle] = []

    @property
    def targets(self) -> list[ComputedTarget]:
        """What was computed so far, in the order of execution, each once."""
        return list(self._found.values())

    def __enter__(self) -> Self:
        for name, module in self._model.named_modules():
            after = partial(self._after, name)
            self._handles += [
                module.register_forward_pre_hook(self._before, with_kwargs=True),
                module.register_forward_hook(after, with_kwargs=True),
            ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._kept.clear()
        self._starts.clear()

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        given = (args, kwargs)
        self._kept.append(given)
        versions = {memory_of(t): t._version for t in tensors_in(given)}
        self._starts[id(module)] = (edges_into(given), versions)

    def _after(self, name: str, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        edges, versions = self._starts.pop(id(module), ([], {}))
        self._kept.append(result)
        weights = {memory_of(t) for t in (*self._model.parameters(), *self._model.buffers())}
        own = [
            t
            for t in tensors_in(result)
            if versions.get(memory_of(t)) != t._version
            and memory_of(t) not in self._handed_on
            and memory_of(t) not in weights
        ]
        self._handed_on.update(memory_of(t) for t in tensors_in(result))
        if not own:
            return
        self._add(ComputedKind.ACTIVATION, name, own[0])
        graph = CallGraph(edges, result, self._names)
        mine = {id(parameter) for parameter in module.parameters(recurse=False)}
        for edge in graph.parameter_edges():
            parameter = self._model.get_parameter(edge.parameter)
            if id(parameter) in mine:
                self._add(ComputedKind.PARAMETER_GRADIENT, name, parameter, edge.parameter)
        if any(True for _ in module.children()):
            return
        given = (args, kwargs)
        taking = [t for t in tensors_in(given) if t.requires_grad]
        if graph.input_edges and taking:
            self._add(ComputedKind.INPUT_GRADIENT, name, taking[0])
        never = weights | {memory_of(t) for t in tensors_in(given) if not t.requires_grad}
        for saved in graph.saved(never)[:1]:
            self._add(ComputedKind.SAVED, name, saved.value)

    def _add(self, kind: ComputedKind, name: str, tensor: Tensor, parameter: str = "") -> None:
        target = ComputedTarget(
            kind=kind,
            module=name,
            parameter=parameter,
            dtype=str(tensor.dtype).removeprefix("torch."),
            num_elements=tensor.numel(),
        )
        self._found.setdefault((kind, name, parameter), target)
