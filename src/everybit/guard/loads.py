"""Loads of a program that was not edited: whether what it loads arrives, and is still there.

`load_state_dict(strict=False)` returns what is missing, and most programs drop that. Here it is
looked at; and before the first use of the weights, whether an initialisation ran over them.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from everybit.checkpoint.keys import match_keys
from everybit.checkpoint.renames import without_wrappers
from everybit.core.after_import import AfterImport
from everybit.core.boundary import Boundary
from everybit.core.verdict import Checked, Coverage
from everybit.guard.check import Check
from everybit.guard.load_findings import (
    judge_load,
    judge_optimizer_load,
    judge_overwritten,
    judge_pretrained,
)
from everybit.guard.load_samples import Sampled, reinitialised, sample, tensors_of
from everybit.guard.patches import Patches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment

#: Files whose content may still be on its way into a model.
_MAX_FILES = 8
_PRETRAINED = "transformers.modeling_utils"


class Loads(Check):
    """Watches `load_state_dict` of modules and optimizers, `torch.load` and `from_pretrained`.

    What it finds is told at the next boundary, which is the first at which the weights are used.

    Args:
        fence: Calls a function with arguments; where that fails, the job does not.
        step: Returns how many updates there were.
    """

    def __init__(self, fence: Callable[..., Any], step: Callable[[], int]) -> None:
        self._fence = fence
        self._step = step
        self._patches = Patches()
        self._import = AfterImport(_PRETRAINED, self._watch_pretrained)
        self._depth = 0
        self._found: list[Finding] = []
        self._sampled: list[tuple[weakref.ref[torch.nn.Module], Sampled, int]] = []
        self._files: OrderedDict[int, tuple[str, object]] = OrderedDict()
        self._num_loads = 0
        self._num_tensors = 0

    def install(self) -> None:
        """Start watching."""
        self._patches.wrap(torch.nn.Module, "load_state_dict", self._module)
        self._patches.wrap(torch.optim.Optimizer, "load_state_dict", self._optimizer)
        self._patches.wrap(torch, "load", self._file)
        self._import.install()

    def remove(self) -> None:
        """Stop watching; everything is as before `install`."""
        self._import.remove()
        self._patches.undo()
        self._sampled.clear()
        self._files.clear()

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Tell what was found at loads, and whether weights are still there at their first use."""
        if not self._sampled and not self._found:
            return ()
        if boundary not in (Boundary.FORWARD_START, Boundary.STEP_START):
            return ()
        return self._take(moment.step)

    def at_end(self, step: int) -> Sequence[Finding]:
        """Tell what was found at loads after which nothing was called."""
        found, self._found = self._found, []
        return _at(step, found)

    def coverage(self) -> Coverage:
        """Return how many loads were seen."""
        if not self._num_loads:
            return Coverage()
        checked = (
            Checked(what="loads watched", count=self._num_loads),
            Checked(what="tensors looked at again before their first use", count=self._num_tensors),
        )
        return Coverage(checked=checked)

    def _take(self, step: int) -> list[Finding]:
        found, self._found = self._found, []
        sampled, self._sampled = self._sampled, []
        for reference, before, loaded_at in sampled:
            module = reference()
            # Where steps in between were not checked, the weights differ as they should.
            if module is not None and loaded_at == step:
                self._num_tensors += len(before.values)
                names = reinitialised(before, module)
                if names:
                    found.append(judge_overwritten(before, names, type(module).__name__))
        return _at(step, found)

    def _module(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        # A wrapper hands it on to the model inside: the outermost call is the program's.
        self._depth += 1
        try:
            result = original(module, *args, **kwargs)
        finally:
            self._depth -= 1
        if self._depth == 0:
            state = args[0] if args else kwargs.get("state_dict")
            self._fence(self._look, module, state, result)
        return result

    def _look(self, module: torch.nn.Module, state: Mapping[str, Any], result: Any) -> None:
        self._num_loads += 1
        held = tensors_of(module)
        stored = {
            name: tuple(value.shape)
            for name, value in state.items()
            if isinstance(value, torch.Tensor)
        }
        unexpected = set(getattr(result, "unexpected_keys", None) or ())
        arrived = [name for name in stored if name not in unexpected]
        here = weakref.ref(module)
        self._sampled = [entry for entry in self._sampled if entry[0]() is not module]
        names = [name for name in arrived if name in held]
        if names:
            self._sampled.append((here, sample(held, names), self._step()))
        missing = getattr(result, "missing_keys", None)
        if not missing and not unexpected:
            return
        first: dict[int, str] = {}
        same = {name: first.setdefault(id(tensor), name) for name, tensor in held.items()}
        match = match_keys({name: tuple(t.shape) for name, t in held.items()}, stored, same)
        if match.is_nothing and arrived:
            return  # A hook of the module renames what it is given.
        finding = judge_load(match, type(module).__name__, self._path_of(state))
        if finding is not None:
            self._found.append(finding)

    def _optimizer(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        state = args[0] if args else kwargs.get("state_dict")
        # Before: torch puts the file's names in the place of the optimizer's own.
        finding = self._fence(judge_optimizer_load, optimizer, state)
        result = original(optimizer, *args, **kwargs)
        if finding is not None:
            self._found.append(finding)
        return result

    def _file(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        loaded = original(*args, **kwargs)
        path = args[0] if args else kwargs.get("f")
        if isinstance(loaded, dict) and (isinstance(path, str) or hasattr(path, "__fspath__")):
            for value in (loaded, *loaded.values()):
                if isinstance(value, dict):
                    self._files[id(value)] = (str(path), _keys(value))
            while len(self._files) > _MAX_FILES:
                self._files.popitem(last=False)
        return loaded

    def _path_of(self, state: Any) -> str:
        path, keys = self._files.get(id(state), ("", ()))
        # Another mapping may have come under this identity.
        return path if keys == _keys(state) else ""

    def _watch_pretrained(self) -> None:
        self._fence(self._wrap_pretrained)

    def _wrap_pretrained(self) -> None:
        import sys

        kind: Any = getattr(sys.modules.get(_PRETRAINED), "PreTrainedModel", None)
        if kind is None or not isinstance(vars(kind).get("from_pretrained"), classmethod):
            return
        inner = vars(kind)["from_pretrained"].__func__
        ours = self

        def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("output_loading_info"):
                model, info = result = inner(cls, *args, **kwargs)
            else:
                result, info = inner(cls, *args, **{**kwargs, "output_loading_info": True})
                model = result
            ours._fence(ours._look_pretrained, model, info, args[0] if args else "")
            return result

        from_pretrained.__doc__ = inner.__doc__
        from_pretrained.__wrapped__ = inner  # type: ignore[attr-defined]
        self._patches.replace(kind, "from_pretrained", classmethod(from_pretrained))

    def _look_pretrained(self, model: torch.nn.Module, info: Mapping[str, Any], path: Any) -> None:
        self._num_loads += 1
        held = tensors_of(model)
        finding = judge_pretrained(held, info, str(path), type(model).__name__)
        if finding is not None:
            self._found.append(finding)
        missing = {without_wrappers(name) for name in info.get("missing_keys", ())}
        names = [name for name in held if without_wrappers(name) not in missing]
        self._sampled.append((weakref.ref(model), sample(held, names), self._step()))


def _at(step: int, found: list[Finding]) -> list[Finding]:
    """Return the findings with the step before which the loads happened."""
    return [replace(each, where=replace(each.where, step=step)) for each in found]


def _keys(state: Mapping[Any, Any]) -> object:
    return len(state), next(iter(state), None)
