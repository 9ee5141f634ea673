"""Find the root modules of a training loop that was not edited."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.patches import Patches
from everybit.guard.tracked import parameter_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    OnOptimizer = Callable[[torch.optim.Optimizer], None]
    OnWrapper = Callable[[torch.nn.Module], None]

__all__ = ["Discovery", "Owners", "roots_of"]


#: Models whose owners are looked for among all live objects; more are taken as they come.
_MAX_SEARCHES = 16


def roots_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Module]:
    """Return the outermost live modules that hold parameters of the optimizer.

    Looks through the garbage collector's list once (about 0.1 s in a large process). Types are
    compared without `isinstance`, which would touch lazy attributes of other libraries.
    """
    wanted = parameter_ids(optimizer)
    modules = _live_modules()
    return _outermost(
        modules,
        [
            m
            for m in modules
            if any(id(p) in wanted for p in m._parameters.values() if p is not None)
        ],
    )


class Owners:
    """Finds the outermost modules that a model is a part of, among all live objects."""

    def __init__(self) -> None:
        self._num_searches = 0

    def __call__(self, model: torch.nn.Module) -> list[torch.nn.Module]:
        """Return them: the model itself where it is no part of another."""
        if next(model.parameters(), None) is None and next(model.buffers(), None) is None:
            return []
        if self._num_searches >= _MAX_SEARCHES:
            return [model]
        self._num_searches += 1
        return _outermost(_live_modules(), [model])


def _live_modules() -> list[torch.nn.Module]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = [o for o in gc.get_objects() if torch.nn.Module in type(o).__mro__]
    # A module whose `__init__` has not run yet has no dictionaries.
    return [m for m in modules if "_parameters" in m.__dict__ and "_modules" in m.__dict__]


def _outermost(
    modules: list[torch.nn.Module], parts: list[torch.nn.Module]
) -> list[torch.nn.Module]:
    """Return the outermost of the modules that hold the parts, the largest first."""
    parents: dict[int, list[torch.nn.Module]] = {}
    for module in modules:
        for child in module._modules.values():
            if child is not None:
                parents.setdefault(id(child), []).append(module)
    found: dict[int, torch.nn.Module] = {}
    stack = list(parts)
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
        on_model: Called with each model that is put into training or evaluation mode, or given
            its weights: a script without an optimizer does that; None where nothing is sought.
    """

    def __init__(
        self,
        on_optimizer: OnOptimizer | None,
        on_wrapper: OnWrapper,
        on_model: OnWrapper | None,
    ) -> None:
        self._on_optimizer = on_optimizer
        self._on_wrapper = on_wrapper
        self._on_model = on_model
        self._depth = 0
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
        if self._on_model is not None:
            for name in ("train", "load_state_dict"):
                self._patches.wrap(torch.nn.Module, name, self._made_ready)

    def _made_ready(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        # `train` goes through all parts of a model: the outermost call is the program's.
        self._depth += 1
        try:
            result = original(module, *args, **kwargs)
        finally:
            self._depth -= 1
        if self._depth == 0 and self._on_model is not None and not torch.compiler.is_compiling():
            self._on_model(module)
        return result

    def remove(self) -> None:
        """Stop listening."""
        self._patches.undo()

    def _after_init(self, kind: Any, then: Callable[[Any], None]) -> None:
        def init(original: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
            original(obj, *args, **kwargs)
            then(obj)

        self._patches.wrap(kind, "__init__", init)
