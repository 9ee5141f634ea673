"""Objects that `restore` rebuilds as what they were: their names, as the sidecar writes them.

All others stay records. Each of these is a plain value of Python, NumPy or torch: making one runs
no code of the file's choosing.
"""

from __future__ import annotations

from typing import Final

_PATHS: Final = ("Path", "PosixPath", "WindowsPath", "PurePath", "PurePosixPath", "PureWindowsPath")

KNOWN: Final = frozenset(
    {
        "builtins:range",
        "builtins:slice",
        "argparse:Namespace",
        "collections:Counter",
        "collections:defaultdict",
        "collections:deque",
        "datetime:date",
        "datetime:datetime",
        "datetime:time",
        "datetime:timedelta",
        "datetime:timezone",
        "decimal:Decimal",
        "fractions:Fraction",
        "types:SimpleNamespace",
        "uuid:UUID",
        *(f"{module}:{name}" for module in ("pathlib", "pathlib._local") for name in _PATHS),
        "numpy:dtype",
        "numpy._core.multiarray:_reconstruct",
        "numpy._core.multiarray:scalar",
        "numpy._core.numeric:_frombuffer",
        "torch:Size",
        "torch:device",
        "torch._C:Generator",
        "torch.serialization:_get_layout",
        "torch._utils:_rebuild_parameter",
        "torch._utils:_rebuild_parameter_with_state",
        "torch._utils:_rebuild_sparse_tensor",
        "torch._utils:_rebuild_nested_tensor",
        "torch._utils:_rebuild_meta_tensor_no_storage",
        "torch._utils:_rebuild_device_tensor_from_numpy",
        "torch._utils:_rebuild_device_tensor_from_cpu_tensor",
    }
)


def library_of(name: str) -> str:
    """Return the library that a name comes from.

    >>> library_of("transformers.training_args:TrainingArguments")
    'transformers'
    """
    return name.partition(":")[0].partition(".")[0]
