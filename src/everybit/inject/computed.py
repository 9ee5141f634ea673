"""Wrong results at their moments in a running loop, with no edit inside the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn
from torch.utils import _pytree as pytree

from everybit.core.computed_fault import OF_MODULES, ComputedFault, ComputedKind
from everybit.core.errors import UsageError
from everybit.inject.calls import CallOfRoot
from everybit.inject.forward import Forward
from everybit.inject.targets import unwrapped
from everybit.inject.wrong_result import Hit, choose, hit, memory_of, spoil, spoil_rng, spoiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch.utils.hooks import RemovableHandle

    from everybit.core.change import Change


#: Kinds that strike at a call of the root.
_OF_CALLS = frozenset({ComputedKind.BATCH, ComputedKind.RNG})


class ComputedCampaign:
    """Computations that go wrong when their step comes, as a context manager.

    Enter the Guard first, then the campaign: a damaged batch or loss is then what the Guard is
    given, as it would be. Modules that no fault names are left alone; those named have `forward`
    replaced until the exit, and an error in it passes through.

    Args:
        faults: What goes wrong, and when. Their modules are names within `root`.
        root: The model, as the loop calls it.
        optimizers: Their updates count the steps; with none, each call of the root is a step.
        count: The current step, where the caller counts better (a GradScaler's skips fire no hook
            here).
        rank: The rank of this process; faults of other ranks are left out.

    Attributes:
        hits: What went wrong, in order, each with its exact truth.
        refused: Faults that could not be as they were asked for, each with the reason.

    Raises:
        UsageError: (on entering) the model has no such module, or one whose forward cannot be
            replaced.

    Example::

        fault = ComputedFault(kind=ComputedKind.ACTIVATION, module="fc", step=3, seed=1)
        with ComputedCampaign([fault], model, optimizer) as campaign:
            train()
        print(campaign.hits[0].changes)
    """

    def __init__(
        self,
        faults: Iterable[ComputedFault],
        root: nn.Module,
        *optimizers: torch.optim.Optimizer,
        count: Callable[[], int] | None = None,
        rank: int = 0,
    ) -> None:
        self.hits: list[Hit] = []
        self.refused: list[tuple[ComputedFault, str]] = []
        self.names = {id(p): key for key, p in reversed([*unwrapped(root).named_parameters()])}
        self._faults = [fault for fault in faults if fault.rank in (None, rank)]
        self._root = root
        self._optimizers = optimizers
        self._count = count
        self._steps = 0
        self._called = [-1, 0]
        self._backwards = [-1, 0]
        self._forwards: list[Forward] = []
        self._call: CallOfRoot | None = None
        self._handles: list[RemovableHandle] = []
        self._backward: Any = None

    @property
    def step(self) -> int:
        """Updates so far."""
        return self._steps if self._count is None else self._count()

    def tell(self, one: Hit) -> None:
        """Note a wrong result."""
        self.hits.append(one)

    def refuse(self, fault: ComputedFault, why: str) -> None:
        """Note a fault that could not be."""
        self.refused.append((fault, why))

    def memory_of_weights(self) -> set[int]:
        """Return the addresses of the storages of parameters and buffers."""
        model = unwrapped(self._root)
        return {memory_of(t) for t in (*model.parameters(), *model.buffers())}

    def __enter__(self) -> Self:
        modules = dict(unwrapped(self._root).named_modules())
        by_name: dict[str, list[ComputedFault]] = {}
        for fault in self._faults:
            if fault.kind in OF_MODULES:
                if fault.module not in modules:
                    raise UsageError(
                        f"no module {fault.module!r} to make wrong",
                        todo="names are those of `named_modules()`",
                    )
                if isinstance(modules[fault.module], torch.jit.ScriptModule):
                    raise UsageError(
                        f"module {fault.module!r} is scripted", todo="choose one around it"
                    )
                by_name.setdefault(fault.module, []).append(fault)
        self._forwards = [Forward(modules[name], by_name[name], self) for name in by_name]
        if not self._optimizers or any(fault.kind in _OF_CALLS for fault in self._faults):
            self._call = CallOfRoot(self._root, self._before_call, self._after_call)
        self._handles = [o.register_step_post_hook(self._updated) for o in self._optimizers]
        if any(fault.kind is ComputedKind.LOSS for fault in self._faults):
            self._backward = torch.autograd.backward
            torch.autograd.backward = self._before_backward
        return self

    def __exit__(self, *exception: object) -> None:
        for forward in self._forwards:
            forward.remove()
        self._forwards.clear()
        if self._call is not None:
            self._call.remove()
        for handle in self._handles:
            handle.remove()
        if self._backward is not None:
            torch.autograd.backward = self._backward
            self._backward = None

    def _due(self, kind: ComputedKind, call: int) -> list[ComputedFault]:
        return [f for f in self._faults if f.kind is kind and f.is_due(self.step, call)]

    def _number(self, counter: list[int]) -> int:
        """Return which one of its step this is, from 0, and count it."""
        if counter[0] != self.step:
            counter[:] = [self.step, 0]
        counter[1] += 1
        return counter[1] - 1

    def _before_call(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        call = self._number(self._called)
        for fault in self._due(ComputedKind.RNG, call):
            words, changes = spoil_rng(fault)
            self._tell(fault, words, changes, call)
        for fault in self._due(ComputedKind.BATCH, call):
            args, kwargs = self._wrong_batch(fault, args, kwargs, call)
        return args, kwargs

    def _wrong_batch(
        self, fault: ComputedFault, args: Any, kwargs: Any, call: int
    ) -> tuple[Any, Any]:
        # A copy: what reached the device is wrong, not what the loader holds.
        leaves, spec = pytree.tree_flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.numel()]
        chosen = choose(fault, [leaves[i] for i in places])
        if chosen is None:
            self.refuse(fault, "the root is given no such tensor")
            return args, kwargs
        right = leaves[places[chosen]]
        wrong, changes = spoiled(fault, right)
        leaves[places[chosen]] = wrong.requires_grad_(right.requires_grad)
        self._tell(fault, wrong, changes, call)
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return args, kwargs

    def _before_backward(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        call = self._number(self._backwards)
        for fault in self._due(ComputedKind.LOSS, call):
            given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            chosen = choose(fault, given)
            if chosen is not None:
                self._tell(fault, given[chosen], spoil(fault, given[chosen]), call)
        return self._backward(tensors, *args, **kwargs)

    def _tell(
        self, fault: ComputedFault, tensor: torch.Tensor, changes: tuple[Change, ...], call: int
    ) -> None:
        self.tell(hit(fault, tensor, changes, step=self.step, call=call))

    def _after_call(self) -> None:
        if not self._optimizers:
            self._steps += 1

    def _updated(self, *_: Any) -> None:
        self._steps += 1
