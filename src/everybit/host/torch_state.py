"""Torch's build, libraries, threads, flags and seeds, read without initialising CUDA.

Every function takes the torch module. What one release lacks is left out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _ask(getters: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Return what the getters give; one that this release lacks is left out."""
    facts: dict[str, Any] = {}
    for name, get in getters.items():
        try:
            value = get()
        except (AttributeError, ImportError):
            continue
        except Exception as error:
            value = f"unreadable ({type(error).__name__}: {error})"
        plain = value is None or isinstance(value, (bool, int, float, str))
        facts[name] = value if plain else str(value)
    return facts


def read_torch(torch: Any) -> dict[str, Any]:
    """Return version and build."""
    config = torch.__config__.show()
    return _ask(
        {
            "version": lambda: str(torch.__version__),
            "git_version": lambda: torch.version.git_version,
            "debug": lambda: torch.version.debug,
            "cpu_capability": torch.backends.cpu.get_cpu_capability,
            "compiler": lambda: _in_config(config, r"- (GCC [^\n]+|Clang [^\n]+|MSVC [^\n]+)"),
            "openmp": lambda: _in_config(config, r"- (OpenMP [^\n]+)"),
            "onednn": lambda: _in_config(config, r"MKL-DNN (v[^\n]+)"),
            "config_digest": lambda: hashlib.sha256(config.encode()).hexdigest()[:16],
        }
    )


def read_cuda(torch: Any) -> dict[str, Any]:
    """Return what torch was built for, and the versions of the libraries it loads."""
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        return {"absent": "torch is built without CUDA"}
    facts = _ask(
        {
            "build": lambda: torch.version.cuda,
            "hip": lambda: torch.version.hip,
            "cudnn": torch.backends.cudnn.version,
            "nccl": lambda: ".".join(map(str, torch.cuda.nccl.version())),
            "architectures": lambda: " ".join(torch._C._cuda_getArchFlags().split()),
            "initialized": torch.cuda.is_initialized,
        }
    )
    if facts.get("initialized"):
        # Only now: asking earlier would initialise CUDA.
        facts["torch_devices"] = {
            str(index): torch.cuda.get_device_name(index)
            for index in range(torch.cuda.device_count())
        }
    return facts


def read_blas(torch: Any) -> dict[str, Any]:
    """Return the linear algebra libraries."""
    config = torch.__config__.show()
    facts: dict[str, Any] = {
        "torch": _in_config(config, r"BLAS_INFO=([^,\s]+)"),
        "lapack": _in_config(config, r"LAPACK_INFO=([^,\s]+)"),
        "mkl": _in_config(config, r"Math Kernel Library Version ([^\n]+?)(?: for|\n)"),
    }
    pools = _thread_pools()
    if pools:
        facts["pools"] = pools
    return facts


def _thread_pools() -> list[str]:
    # Reads /proc/self/maps: what is really loaded. Only where somebody installed it.
    if importlib.util.find_spec("threadpoolctl") is None:
        return []
    threadpoolctl: Any = importlib.import_module("threadpoolctl")
    return sorted(
        f"{pool.get('internal_api')} {pool.get('version')} {pool.get('architecture', '')}".strip()
        for pool in threadpoolctl.threadpool_info()
    )


def read_threads(torch: Any) -> dict[str, Any]:
    """Return the thread counts on which the order of sums depends."""
    return _ask(
        {
            "intra_op": torch.get_num_threads,
            "inter_op": torch.get_num_interop_threads,
        }
    )


def read_determinism(torch: Any) -> dict[str, Any]:
    """Return the flags that choose between algorithms."""
    cudnn, cuda = torch.backends.cudnn, torch.backends.cuda
    return _ask(
        {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
            "warn_only": torch.is_deterministic_algorithms_warn_only_enabled,
            "fill_uninitialized_memory": lambda: (
                torch.utils.deterministic.fill_uninitialized_memory
            ),
            "cudnn_enabled": lambda: cudnn.enabled,
            "cudnn_benchmark": lambda: cudnn.benchmark,
            "cudnn_deterministic": lambda: cudnn.deterministic,
            "mkldnn_enabled": lambda: torch.backends.mkldnn.enabled,
            "mkldnn_deterministic": lambda: torch.backends.mkldnn.deterministic,
            "sdp_flash": cuda.flash_sdp_enabled,
            "sdp_mem_efficient": cuda.mem_efficient_sdp_enabled,
            "sdp_math": cuda.math_sdp_enabled,
            "sdp_cudnn": cuda.cudnn_sdp_enabled,
            "preferred_linalg": cuda.preferred_linalg_library,
            "preferred_blas": cuda.preferred_blas_library,
        }
    )


def read_precision(torch: Any) -> dict[str, Any]:
    """Return the flags that choose the precision of computations."""
    matmul = torch.backends.cuda.matmul
    return _ask(
        {
            "default_dtype": torch.get_default_dtype,
            "float32_matmul": torch.get_float32_matmul_precision,
            "matmul_tf32": lambda: matmul.allow_tf32,
            "matmul_fp16_reduced": lambda: matmul.allow_fp16_reduced_precision_reduction,
            "matmul_bf16_reduced": lambda: matmul.allow_bf16_reduced_precision_reduction,
            "matmul_fp16_accumulation": lambda: matmul.allow_fp16_accumulation,
            "cudnn_tf32": lambda: torch.backends.cudnn.allow_tf32,
            "mkldnn_matmul": lambda: torch.backends.mkldnn.matmul.fp32_precision,
            "autocast_cpu_dtype": lambda: torch.get_autocast_dtype("cpu"),
            "autocast_cuda_dtype": lambda: torch.get_autocast_dtype("cuda"),
        }
    )


def read_seeds(torch: Any) -> dict[str, Any]:
    """Return torch's seeds; Python's and numpy's streams do not tell theirs."""
    facts: dict[str, Any] = {"torch": torch.initial_seed()}
    if torch.cuda.is_initialized():
        facts["torch_cuda"] = torch.cuda.initial_seed()
    return facts


def _in_config(config: str, pattern: str) -> str | None:
    match = re.search(pattern, config)
    return match[1].strip() if match else None
