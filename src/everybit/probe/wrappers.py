"""The model inside wrappers: data parallelism, torch.compile, checkpointing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

#: Wrappers whose own level does not appear in a state_dict key of the model inside.
_WRAPPERS: Final = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Return the model inside wrappers: data parallelism, torch.compile, checkpointing."""
    while True:
        name = _WRAPPERS.get(type(module).__name__)
        inside = None if name is None else module._modules.get(name)
        if inside is None:
            return module
        module = inside
