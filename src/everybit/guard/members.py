"""The root modules and optimizers of a training loop, by name, for as long as they live."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from everybit.core.observation import unique_name
from everybit.guard.tracked import parameter_ids, track_module
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


class Members:
    """Root modules and optimizers, weakly held: a sweep builds many and drops each.

    Args:
        lost: Called when one is gone, with its name where it was an optimizer.
    """

    def __init__(self, lost: Callable[[str | None], None]) -> None:
        self._lost = lost
        self._held: dict[int, set[int]] = {}
        self._roots: list[tuple[weakref.ref[torch.nn.Module], str | None]] = []
        self._optimizers: list[tuple[weakref.ref[torch.optim.Optimizer], str]] = []

    @property
    def roots(self) -> list[tuple[torch.nn.Module, str | None]]:
        """The root modules that live, with their names (None for the first)."""
        return [(root, name) for ref, name in self._roots if (root := ref()) is not None]

    @property
    def optimizers(self) -> list[tuple[torch.optim.Optimizer, str]]:
        """The optimizers that live, with their names."""
        return [(item, name) for ref, name in self._optimizers if (item := ref()) is not None]

    @property
    def has_optimizers(self) -> bool:
        """Whether an optimizer lives."""
        return bool([None for ref, _ in self._optimizers if ref() is not None])

    @property
    def in_training(self) -> bool:
        """Whether a root module is in training mode, or there is none. It is asked each batch."""
        modes = [root.training for ref, _ in self._roots if (root := ref()) is not None]
        return not modes or any(modes)

    def add_root(self, module: torch.nn.Module) -> list[torch.nn.Module]:
        """Track a root module.

        Returns:
            The roots whose place it takes: the same model without this wrapper, or parts of it.
        """
        roots = self.roots
        if any(known is module for known, _ in roots):
            return []
        inside = {id(part) for part in module.modules()}
        replaced = [known for known, _ in roots if id(known) in inside]
        if not replaced and any(module in set(known.modules()) for known, _ in roots):
            return []
        roots = [(known, name) for known, name in roots if known not in replaced]
        taken = [name for _, name in roots]
        if None in taken:
            name = unique_name(type(unwrap(module)).__name__, [name or "" for name in taken])
            roots.append((module, name))
        else:
            roots.insert(0, (module, None))
        self._roots = [(weakref.ref(root, self._gone), name) for root, name in roots]
        return replaced

    def add_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Track an optimizer."""
        if self.name_of(optimizer) is None:
            name = unique_name(type(optimizer).__name__, [n for _, n in self.optimizers])
            self._optimizers = [
                (ref, known) for ref, known in self._optimizers if ref() is not None
            ]
            self._optimizers.append((weakref.ref(optimizer, self._gone), name))

    def name_of(self, optimizer: object) -> str | None:
        """Return the name of a tracked optimizer, None for another."""
        if optimizer is None:
            return None
        return next((name for ref, name in self._optimizers if ref() is optimizer), None)

    def name_of_part(self, module: torch.nn.Module) -> str:
        """Return the qualified name of a module of a root, wrappers left out; "" for another."""
        for root, _ in self.roots:
            for name, part in unwrap(root).named_modules():
                if part is module:
                    return str(name)
        return ""

    def name_of_memory(self, tensor: torch.Tensor) -> str:
        """Return the name of the parameter whose memory a tensor shows; "" for none."""
        address = tensor.untyped_storage().data_ptr()
        for root, _ in self.roots:
            for name, parameter in unwrap(root).named_parameters():
                if address and parameter.untyped_storage().data_ptr() == address:
                    return str(name)
        return ""

    def owns(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the optimizer updates any tracked parameter."""
        tracked = {id(item.tensor) for root in self.roots for item in track_module(*root)}
        return any(id(p) in tracked for group in optimizer.param_groups for p in group["params"])

    def is_root(self, module: torch.nn.Module | None) -> bool:
        """Whether a module is a root, and not a part of one."""
        return any(reference() is module for reference, _ in self._roots)

    def held_by(self, root: torch.nn.Module | None) -> set[int] | None:
        """Return the identities of the tensors a module holds; None where it is the only root."""
        if root is None or (len(self._roots) == 1 and self._roots[0][0]() is root):
            return None
        held = self._held.get(id(root))
        if held is None:
            held = self._held[id(root)] = {id(item.tensor) for item in track_module(root, None)}
        return held

    def look_again(self) -> None:
        """Forget who holds what: tensors came, went or were exchanged."""
        self._held.clear()

    def written_by(self, optimizer: torch.optim.Optimizer) -> set[str]:
        """Return the groups that hold what an optimizer's step writes."""
        # A parameter that two optimizers share is in the group of the first.
        mine = parameter_ids(optimizer)
        return {
            name
            for other, name in self.optimizers
            if other is optimizer
            or any(id(p) in mine for group in other.param_groups for p in group["params"])
        }

    def _gone(self, gone: weakref.ref[Any]) -> None:
        self._lost(next((name for ref, name in self._optimizers if ref is gone), None))
