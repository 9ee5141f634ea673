"""A module's forward, and its backward, that can be made wrong."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.computed_fault import ComputedFault, ComputedKind
from everybit.core.fault import Pattern
from everybit.inject.backward import CallGraph, Edge, edges_into
from everybit.inject.wrong_result import choose, hit, memory_of, spoil, spoiled, tensors_in

if TYPE_CHECKING:
    from torch import Tensor, nn

    from everybit.inject.computed import ComputedCampaign


class Forward:
    """Stands where torch looks for a module's `forward`: inside of all hooks.

    What the module returns is made wrong in its own memory before anybody else sees it, as if its
    last kernel had written it so.

    Args:
        module: The module.
        faults: Those that name it.
        campaign: Knows the step, and is told what was hit.
    """

    def __init__(
        self, module: nn.Module, faults: list[ComputedFault], campaign: ComputedCampaign
    ) -> None:
        self._module = module
        self._faults = faults
        self._campaign = campaign
        self._own = module.__dict__.get("forward")
        self._forward = module.forward
        self._step = -1
        self._calls = 0
        self._earlier: dict[int, Tensor] = {}
        self._chance = [random.Random(f"{fault.seed} chance") for fault in faults]
        module.__dict__["forward"] = self

    def remove(self) -> None:
        """Leave the place as it was."""
        if self._module.__dict__.get("forward") is self:
            if self._own is None:
                del self._module.__dict__["forward"]
            else:
                self._module.__dict__["forward"] = self._own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module's forward."""
        if torch.compiler.is_compiling():
            return self._forward(*args, **kwargs)
        step = self._campaign.step
        if step != self._step:
            self._step, self._calls = step, 0
        call = self._calls
        self._calls += 1
        due = [
            index
            for index, fault in enumerate(self._faults)
            if (fault.is_due(step, call) and self._happens(index))
            or (fault.pattern is Pattern.STALE and fault.is_due(step + 1, call))
        ]
        if not due:
            return self._forward(*args, **kwargs)
        given = (args, kwargs)
        edges = edges_into(given) if torch.is_grad_enabled() else []
        versions = {memory_of(t): t._version for t in _plain(given)}
        result = self._forward(*args, **kwargs)
        for index in due:
            fault = self._faults[index]
            if fault.kind is ComputedKind.ACTIVATION:
                self._activation(index, result, versions, call)
            else:
                self._backward(fault, CallGraph(edges, result, self._campaign.names), given, call)
        return result

    def __reduce__(self) -> Any:
        """Copies and pickles of the module go on with the plain forward of their class."""
        return getattr, (self._module, "forward")

    def _happens(self, index: int) -> bool:
        probability = self._faults[index].probability
        return probability >= 1.0 or self._chance[index].random() < probability

    def _activation(self, index: int, result: Any, versions: dict[int, int], call: int) -> None:
        fault = self._faults[index]
        tensors = tensors_in(result)
        chosen = choose(fault, tensors)
        if chosen is None:
            self._campaign.refuse(fault, "it returns no such tensor")
            return
        tensor = tensors[chosen]
        if versions.get(memory_of(tensor)) == tensor._version or any(
            memory_of(tensor) == memory_of(p) for p in self._module.parameters(recurse=False)
        ):
            self._campaign.refuse(fault, "it hands on what it was given and computes nothing")
            return
        earlier = self._earlier.get(index)
        if fault.pattern is Pattern.STALE:
            self._earlier[index] = tensor.detach().clone()
            if not fault.is_due(self._step, call):
                return
            if earlier is None or earlier.shape != tensor.shape or earlier.dtype != tensor.dtype:
                self._campaign.refuse(fault, "the step before returned another shape")
                return
        changes = spoil(fault, tensor, earlier)
        self._campaign.tell(hit(fault, tensor, changes, step=self._step, call=call))

    def _backward(self, fault: ComputedFault, graph: CallGraph, given: Any, call: int) -> None:
        if fault.kind is ComputedKind.SAVED:
            never = self._campaign.memory_of_weights()
            never |= {memory_of(t) for t in _plain(given) if not t.requires_grad}
            saved = graph.saved(never)
            chosen = choose(fault, [one.value for one in saved])
            if chosen is None:
                self._campaign.refuse(fault, "nothing of it is kept for the backward")
                return
            self._spoil_saved(fault, saved[chosen].node, saved[chosen].name, call)
            return
        edges = (
            graph.input_edges
            if fault.kind is ComputedKind.INPUT_GRADIENT
            else graph.parameter_edges(fault.parameter)
        )
        if not edges:
            self._campaign.refuse(fault, "it computes no such gradient")
            return
        which = random.Random(f"{fault.seed} edge").randrange(len(edges))
        self._spoil_gradient(fault, edges[which], call)

    def _spoil_saved(self, fault: ComputedFault, node: Any, name: str, call: int) -> None:
        step, campaign = self._step, self._campaign

        def before(_gradients: Any) -> None:
            value = getattr(node, name)
            campaign.tell(hit(fault, value, spoil(fault, value), step=step, call=call))

        node.register_prehook(before)

    def _spoil_gradient(self, fault: ComputedFault, edge: Edge, call: int) -> None:
        step, campaign = self._step, self._campaign

        def after(gradients: tuple[Tensor | None, ...], _outputs: Any) -> Any:
            right = gradients[edge.index]
            if right is None or not right.numel():
                return None
            wrong, changes = spoiled(fault, right)
            campaign.tell(
                hit(fault, wrong, changes, step=step, call=call, parameter=edge.parameter)
            )
            return (*gradients[: edge.index], wrong, *gradients[edge.index + 1 :])

        edge.node.register_hook(after)


def _plain(given: Any) -> list[Tensor]:
    return [t for t in tensors_in(given) if t.layout is torch.strided and t.device.type != "meta"]
