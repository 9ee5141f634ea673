"""The processor: model, stepping, microcode, instruction sets, and the C library on it."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import Any, Final

#: Instruction sets by which libraries choose kernels.
KERNEL_FLAGS: Final = (
    "amx_bf16",
    "amx_int8",
    "amx_tile",
    "asimd",
    "asimdhp",
    "avx",
    "avx2",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "avx512bw",
    "avx512dq",
    "avx512f",
    "avx512vl",
    "avx_vnni",
    "bf16",
    "f16c",
    "fma",
    "i8mm",
    "sse4_2",
    "sve",
    "sve2",
)

_FIELDS: Final = {
    "vendor_id": "vendor",
    "model name": "model",
    "cpu family": "family",
    "model": "model_number",
    "stepping": "stepping",
    "microcode": "microcode",
    "CPU implementer": "implementer",
    "CPU part": "part",
    "CPU revision": "revision",
}


def read_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, Any]:
    """Return the first processor's facts, the number of them, and the C library.

    Args:
        cpuinfo: Linux's list of processors; elsewhere `platform` is asked.
    """
    facts: dict[str, Any] = {
        "machine": platform.machine(),
        "num_cpus": os.cpu_count(),
        "num_usable": _num_usable(),
        "libc": " ".join(platform.libc_ver()).strip(),
    }
    listed = _first_processor(cpuinfo)
    if not listed:
        return facts | {"model": platform.processor()}
    for key, name in _FIELDS.items():
        if key in listed:
            facts[name] = listed[key]
    flags = sorted((listed.get("flags") or listed.get("Features") or "").split())
    facts["kernel_flags"] = [flag for flag in KERNEL_FLAGS if flag in flags]
    facts["flags_digest"] = hashlib.sha256(" ".join(flags).encode()).hexdigest()[:16]
    return facts


def _num_usable() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()


def _first_processor(cpuinfo: Path) -> dict[str, str]:
    # Only the first block: the kernel computes the list while it is read, and it can be long.
    found: dict[str, str] = {}
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, colon, value = line.partition(":")
                if colon:
                    found[key.strip()] = value.strip()
                elif found:
                    break
    except OSError:
        return {}
    return found
