"""Flags that make operations repeat: set, read back, and told where they did not take.

Sources: PyTorch's notes on reproducibility and on numerical accuracy; cuBLAS's chapter on
reproducibility, for the workspace.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.probe.seeded import NotSet, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

WORKSPACE: Final = "CUBLAS_WORKSPACE_CONFIG"
#: Values with which cuBLAS repeats on several streams.
WORKSPACES: Final = (":4096:8", ":16:8")
#: Variables that override flags from outside: `{name: values that do harm, what they override}`.
_OVERRIDES: Final = {
    "NVIDIA_TF32_OVERRIDE": ("1", "TF32 is forced on for every CUDA library"),
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": ("1", "TF32 was allowed for products when torch started"),
}


def make_deterministic(
    mode: str, environ: MutableMapping[str, str] | None = None
) -> tuple[list[Setting], list[NotSet]]:
    """Set every flag that makes operations repeat, at full precision.

    Args:
        mode: `strict` (an operation that does not repeat raises) or `warn` (it warns).
        environ: The environment; that of this process where None.

    Returns:
        What was set, and what was not. Flags are read back: one that did not take is not set.
    """
    done: list[Setting] = []
    left: list[NotSet] = []
    backends = torch.backends
    uninitialized: Any = torch.utils.deterministic
    chosen: list[tuple[str, Callable[[], object], Callable[[], object], object]] = [
        (
            "deterministic_algorithms",
            lambda: torch.use_deterministic_algorithms(True, warn_only=mode == "warn"),
            lambda: (
                torch.are_deterministic_algorithms_enabled()
                and torch.is_deterministic_algorithms_warn_only_enabled() == (mode == "warn")
            ),
            True,
        ),
        _flag("fill_uninitialized_memory", uninitialized, "fill_uninitialized_memory", True),
        _flag("cudnn.deterministic", backends.cudnn, "deterministic", True),
        _flag("cudnn.benchmark", backends.cudnn, "benchmark", False),
        _flag("mkldnn.deterministic", backends.mkldnn, "deterministic", True),
        (
            "float32_matmul_precision",
            lambda: torch.set_float32_matmul_precision("highest"),
            torch.get_float32_matmul_precision,
            "highest",
        ),
        _flag("cuda.matmul.allow_tf32", backends.cuda.matmul, "allow_tf32", False),
        _flag("cudnn.allow_tf32", backends.cudnn, "allow_tf32", False),
    ]
    for name, write, read, wanted in chosen:
        why = _try(write, read, wanted)
        if why:
            left.append(NotSet(name=name, why=why))
        else:
            done.append(Setting(name=name, value=wanted))
    variables = os.environ if environ is None else environ
    _workspace(variables, done, left)
    for name, (harmful, what) in _OVERRIDES.items():
        if variables.get(name, "").strip() == harmful:
            why = f"{name}={harmful} is set: {what}; unset it before the start"
            left.append(NotSet(name=name, why=why))
    return done, left


def _flag(
    name: str, owner: Any, attribute: str, wanted: object
) -> tuple[str, Callable[[], object], Callable[[], object], object]:
    return (
        name,
        lambda: setattr(owner, attribute, wanted),
        lambda: getattr(owner, attribute),
        wanted,
    )


def _try(write: Callable[[], object], read: Callable[[], object], wanted: object) -> str:
    """Write, read back; return why it did not take, else ""."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write()
            found = read()
    except Exception as error:
        # Torch refuses to mix its two families of TF32 settings, for one.
        told = str(error).strip().splitlines() or [type(error).__name__]
        return f"torch refused it ({told[0][:200]})"
    return "" if found == wanted else f"it was set and reads {found!r}"


def _workspace(environ: MutableMapping[str, str], done: list[Setting], left: list[NotSet]) -> None:
    """Choose cuBLAS's workspace, which it reads when its first handle is made."""
    if torch.version.cuda is None:
        return
    cuda: Any = torch.cuda
    value = environ.get(WORKSPACE, "").strip()
    if value in WORKSPACES:
        done.append(Setting(name=WORKSPACE, value=value))
    elif value:
        why = f"it is {value!r}, with which products may not repeat; set it to {WORKSPACES[0]}"
        left.append(NotSet(name=WORKSPACE, why=why))
    elif cuda.is_initialized():
        why = (
            "CUDA has started, and cuBLAS reads it when its first handle is made; seed before the "
            f"first use of a GPU, or start with {WORKSPACE}={WORKSPACES[0]}"
        )
        left.append(NotSet(name=WORKSPACE, why=why))
    else:
        environ[WORKSPACE] = WORKSPACES[0]
        done.append(Setting(name=WORKSPACE, value=WORKSPACES[0]))
