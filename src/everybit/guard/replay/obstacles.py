"""Why a call of a model cannot be repeated."""

from __future__ import annotations

import sys
from typing import Any, Final

import torch
from torch.nn.modules import module as module_module

from everybit.guard.replay.packing import is_packed
from everybit.probe.memory import is_uninitialised
from everybit.probe.wrappers import unwrap

#: Hooks of these packages compute with the model, and do the same again.
_KNOWN_HOOKS: Final = ("torch.", "everybit.")
_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS: Final = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)
#: Parts whose kind tells that they cannot be entered again, by the name of the class.
_CLOSED: Final = {
    "FSDPModule": "its weights are gathered for one pass only (FSDP)",
    "FullyShardedDataParallel": "its weights are gathered for one pass only (FSDP)",
    "SyncBatchNorm": "its batch norm speaks with other ranks",
}


def why_not(root: torch.nn.Module, parts: list[torch.nn.Module]) -> str:
    """Return why calls of a root cannot be repeated, whatever it is given; "" where they can.

    Args:
        root: As it is called.
        parts: The parts of the model inside its wrappers, that itself included.
    """
    module = unwrap(root)
    compiled = "it is compiled: only the root is seen"
    for each in (root, module):
        impl: Any = each.__dict__.get("_compiled_call_impl")
        # A Guard's, or a fault campaign's around it: they hand the call on.
        while type(impl).__module__.startswith("everybit."):
            impl = impl.inner
        if type(each).__name__ == "OptimizedModule" or impl is not None:
            return compiled
    if isinstance(module, torch.jit.ScriptModule):
        return "it is scripted"
    for part in parts:
        for kind in type(part).__mro__:
            if kind.__name__ in _CLOSED:
                return _CLOSED[kind.__name__]
        for parameter in part._parameters.values():
            if parameter is not None and (why := _why_not_weight(parameter)):
                return why
        for name in _HOOKS:
            for hook in part.__dict__.get(name, {}).values():
                if not _is_known(hook):
                    return f"forward or backward hooks of the program on a {type(part).__name__}"
    for name in _GLOBAL_HOOKS:
        if any(not _is_known(hook) for hook in getattr(module_module, name, {}).values()):
            return "hooks of the program on all modules"
    return ""


def why_not_now() -> str:
    """Return why the call that begins in this thread cannot be repeated, "" where it can."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "within a transform of torch.func"
    modes = range(torch._C._len_torch_dispatch_stack())
    if any(not hasattr(torch._C._get_dispatch_stack_at(n), "everybits_own") for n in modes):
        return "a dispatch mode of the program is active"
    if is_packed():
        return "saved tensors are packed by hooks of the program"
    if torch._C._get_tracing_state():
        return "it is being traced"
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():  # type: ignore[no-untyped-call]
        return "it is being captured in a CUDA graph"
    return ""


def why_not_there(module: torch.nn.Module) -> str:
    """Return which tensor of the module has no memory to copy, "" for none: torch would crash."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if is_uninitialised(tensor):
            return f"{name} is not initialised yet"
        plain = tensor.layout is torch.strided and tensor.device.type != "meta"
        if plain and tensor.numel() and not tensor.untyped_storage().nbytes():
            return f"{name} has no memory now"
    return ""


class CollectiveCounter:
    """Counts what this rank says to others: a call that speaks is not repeated by one alone."""

    def __init__(self) -> None:
        self._before = _sequence_numbers()

    def why_moved(self) -> str:
        """Return why the call since cannot be repeated, "" where it can."""
        return "its forward speaks with other ranks" if _sequence_numbers() != self._before else ""


def _sequence_numbers() -> list[int]:
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is None or not distributed.is_initialized():
        return []
    numbers = []
    for group in distributed._world.pg_map:
        try:
            numbers.append(int(group._get_sequence_number_for_group()))
        except (RuntimeError, AttributeError, NotImplementedError):
            numbers.append(-1)
    return numbers


def _is_known(hook: Any) -> bool:
    function = getattr(hook, "func", hook)
    place = getattr(function, "__module__", None) or type(function).__module__
    return str(place).startswith(_KNOWN_HOOKS)


def _why_not_weight(parameter: torch.Tensor) -> str:
    if is_uninitialised(parameter):
        return "it is not initialised yet"
    if type(parameter).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"a {type(parameter).__name__} keeps its weights elsewhere, or over several ranks"
    return ""
