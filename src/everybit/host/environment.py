"""Capture the environment as one JSON-ready record, section by section."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from everybit.host.argv import read_argv
from everybit.host.code import read_code
from everybit.host.cpu import read_cpu
from everybit.host.gpu import read_gpu
from everybit.host.loaded import read_libraries
from everybit.host.lock_files import read_lock_files
from everybit.host.nccl import read_nccl
from everybit.host.packages import read_packages
from everybit.host.python import read_host, read_process, read_python
from everybit.host.repository import read_repository
from everybit.host.system import read_container, read_mounts, read_system
from everybit.host.torch_state import (
    read_blas,
    read_cuda,
    read_determinism,
    read_precision,
    read_seeds,
    read_threads,
    read_torch,
)
from everybit.host.variables import read_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

SCHEMA: Final = "everybit.environment/1"

_OF_TORCH: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "torch": read_torch,
    "cuda": read_cuda,
    "blas": read_blas,
    "threads": read_threads,
    "determinism": read_determinism,
    "precision": read_precision,
    "seeds": read_seeds,
}


def capture_environment(
    *,
    extra_variables: Iterable[str] = (),
    load_torch: bool = False,
    keep_diff: bool = True,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return what this process runs on. Never raises, and never initialises CUDA.

    A section that cannot be read is `{"unknown": why}`; one that is not there (no torch, no GPU, no
    repository) is `{"absent": what}`.

    Args:
        extra_variables: Names of environment variables to record beside the allow-list. Names that
            look like secrets are refused.
        load_torch: Import torch where it is installed. Otherwise its state is read only where it is
            loaded already.
        keep_diff: Keep the text of uncommitted changes (at most 256 KiB), not only its digest.
        folder: A folder of the repository whose commit is recorded; the working directory by
            default.
    """
    extra = tuple(extra_variables)
    torch, without = _find_torch(load=load_torch)
    sections: dict[str, Callable[[], Any]] = {
        "python": read_python,
        "host": read_host,
        "system": read_system,
        "container": read_container,
        "mounts": lambda: read_mounts(folder),
        "process": read_process,
        "argv": lambda: read_argv(sys.argv),
        "code": read_code,
        "cpu": read_cpu,
        "gpu": read_gpu,
    }
    for name, read_state in _OF_TORCH.items():
        sections[name] = (lambda: without) if torch is None else partial(read_state, torch)
    sections |= {
        "libraries": read_libraries,
        "variables": lambda: read_variables(extra=extra),
        "nccl": read_nccl,
        "packages": read_packages,
        "lock": lambda: read_lock_files(folder),
        "git": lambda: read_repository(folder, keep_diff=keep_diff),
    }
    record: dict[str, Any] = {"schema": SCHEMA, "captured_at": time.time()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, read in sections.items():
            try:
                record[name] = read()
            except Exception as error:
                record[name] = {"unknown": f"{type(error).__name__}: {error}"}
    return record


def _find_torch(*, load: bool) -> tuple[Any, dict[str, str]]:
    """Return the torch module, or None and what the record says instead."""
    why = "torch is not loaded in this process"
    if load:
        try:
            importlib.import_module("torch")
        except Exception as error:
            why = f"torch failed to load ({type(error).__name__}: {error})"
    torch = sys.modules.get("torch")
    try:
        installed = torch is not None or importlib.util.find_spec("torch") is not None
    except Exception as error:
        return None, {"unknown": f"torch cannot be looked for ({error})"}
    return torch, {"unknown": why} if installed else {"absent": "torch is not installed"}
