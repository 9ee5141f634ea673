"""Flags of torch on which the bits of a result depend."""

from __future__ import annotations

from typing import Any, Final

import torch

_ATTENTION: Final = {
    "flash": "_get_flash_sdp_enabled",
    "mem_efficient": "_get_mem_efficient_sdp_enabled",
    "math": "_get_math_sdp_enabled",
}


def precision() -> dict[str, Any]:
    """Return the flags as they are in this thread."""
    found: dict[str, Any] = {
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "num_threads": torch.get_num_threads(),
        "float32_matmul": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "onednn": torch._C._get_mkldnn_enabled(),
        "cudnn_benchmark": torch._C._get_cudnn_benchmark(),
        "cudnn_deterministic": torch._C._get_cudnn_deterministic(),
        "cudnn_allow_tf32": torch._C._get_cudnn_allow_tf32(),
    }
    for kind in ("cpu", "cuda"):
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
            found[f"autocast_{kind}"] = str(dtype).removeprefix("torch.")
    attention = [name for name, getter in _ATTENTION.items() if getattr(torch._C, getter)()]
    found["attention"] = ",".join(attention)
    return found
