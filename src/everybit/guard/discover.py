"""Find the root modules of a training loop that was not edited."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.patches import Patches

if TYPE_CHECKING:
    from collections.abc import Callable

    OnOptimizer = Callable[[torch.optim.Optimizer], None]
    OnWrapper = Callable[[torch.nn.Module], None]

__all__ = ["Discovery", "roots_of"]


def roots_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Module]:
    """Return the outermost live modules that hold parameters of the optimizer.

    Looks through the garbage collector's list once (about 0.1 s in a large process). Types are
    compared without `isinstance`, which would touch lazy attributes of other libraries.
    """
    wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = [o for o in gc.get_objects() if torch.nn.Module in type(o).__mro__]
    # A module whose `__init__` has not run yet has no dictionaries.
    modules = [m for m in modules if "_parameters" in m.__dict__ and "_modules" in m.__dict__]
    parents: dict[int, list[torch.nn.Module]] = {}
    for module in modules:
        for child in module._modules.values():
            if child is not None:
                parents.setdefault(id(child), []).append(module)
    found: dict[int, torch.nn.Module] = {}
    stack = [
        m for m in modules if any(id(p) in wanted for p in m._parameters.values() if p is not None)
    ]
    seen: set[int] = set()
    while stack:
        module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        above = [p for p in parents.get(id(module), ()) if p is not module]
        stack += above
        if not above:
            found[id(module)] = module
    return sorted(found.values(), key=lambda m: -sum(1 for _ in m.modules()))


class Discovery:
    """Hear of optimizers when they are built, and of wrappers put around a model.

    Args:
        on_optimizer: Called with each optimizer once its parameter groups are set; None where
            the optimizers are known.
        on_wrapper: Called with each data-parallel or torch.compile wrapper.
    """

    def __init__(self, on_optimizer: OnOptimizer | None, on_wrapper: OnWrapper) -> None:
        self._on_optimizer = on_optimizer
        self._on_wrapper = on_wrapper
        self._patches = Patches()

    def install(self) -> None:
        """Start listening."""
        if self._on_optimizer is not None:
            self._after_init(torch.optim.Optimizer, self._on_optimizer)
        self._after_init(torch.nn.DataParallel, self._on_wrapper)
        if torch.distributed.is_available():
            from torch.nn.parallel import DistributedDataParallel

            self._after_init(DistributedDataParallel, self._on_wrapper)

        def compile_(original: Any, *args: Any, **kwargs: Any) -> Any:
            result: Any = original(*args, **kwargs)
            if torch.nn.Module in type(result).__mro__:
                self._on_wrapper(result)
            return result

        self._patches.wrap(torch, "compile", compile_)

    def remove(self) -> None:
        """Stop listening."""
        self._patches.undo()

    def _after_init(self, kind: Any, then: Callable[[Any], None]) -> None:
        def init(original: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
            original(obj, *args, **kwargs)
            then(obj)

        self._patches.wrap(kind, "__init__", init)
