"""Environment variables, by allow-list: those that bear on numbers, and never a secret."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from everybit.host.argv import looks_secret, without_passwords

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Variables with these prefixes choose kernels, threads, algorithms or precision.
PREFIXES: Final = (
    "ATEN_",
    "BLIS_",
    "CUBLASLT_",
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "DNNL_",
    "GLOO_",
    "GOMP_",
    "GOTO_",
    "HIP_",
    "KMP_",
    "MIOPEN_",
    "MKL_",
    "NCCL_",
    "NUMEXPR_",
    "NVIDIA_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTORCH_",
    "ROCBLAS_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TORCH_",
    "TRITON_",
    "VECLIB_",
)
NAMES: Final = frozenset(
    {
        "GLIBC_TUNABLES",
        "LD_PRELOAD",
        "MALLOC_PERTURB_",
        "PYTHONHASHSEED",
        "PYTHONOPTIMIZE",
        "TF32_OVERRIDE",
        "TOKENIZERS_PARALLELISM",
    }
)
#: Places and ranks: recorded, not compared.
RECORDED: Final = frozenset(
    {
        "CUDA_HOME",
        "CUDA_PATH",
        "GROUP_RANK",
        "LD_LIBRARY_PATH",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "SLURM_JOB_ID",
        "SLURM_JOB_NODELIST",
        "SLURM_NODEID",
        "SLURM_PROCID",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_RUN_ID",
        "TORCH_HOME",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "WORLD_SIZE",
    }
)


def read_variables(
    environ: Mapping[str, str] | None = None, *, extra: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the listed variables that are set.

    Args:
        environ: The variables; those of this process where None.
        extra: Further names to compare. Names that look like secrets are refused.

    Returns:
        `{name: value}` of those that are compared; under `recorded`, those that are not.
    """
    source = os.environ if environ is None else environ
    wanted = frozenset(extra)
    compared: dict[str, str] = {}
    recorded: dict[str, str] = {}
    for name in sorted(source):
        if looks_secret(name):
            continue
        value = without_passwords(source[name])
        if name in RECORDED:
            recorded[name] = value
        elif name in NAMES or name in wanted or name.startswith(PREFIXES):
            compared[name] = value
    return {**compared, "recorded": recorded}
