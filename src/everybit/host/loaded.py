"""Libraries of linear algebra and threads that are loaded in this process, as the kernel tells.

Two of one kind (`libgomp` and `libiomp5`) make thread counts, and with them sums, hard to foresee.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

# The hash that wheels put into the names of the libraries they bundle is part of the build.
_KINDS: Final = re.compile(
    r"lib(?P<kind>gomp|iomp5|omp|mkl_rt|mkl_core|openblas|scipy_openblas|blis|flexiblas|armpl"
    r"|nvpl_blas)[-_.0-9a-zA-Z]*\.so[-.0-9a-z]*"
)


def read_libraries(maps: Path = Path("/proc/self/maps")) -> dict[str, Any]:
    """Return `{kind: [file names]}`, such as `{"gomp": ["libgomp-a34b3233.so.1"]}`."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {"unknown": "the system lists no loaded libraries"}
    found: dict[str, set[str]] = {}
    for name in {line.rpartition("/")[2] for line in lines if ".so" in line}:
        match = _KINDS.fullmatch(name)
        if match:
            found.setdefault(match["kind"], set()).add(name)
    return {kind: sorted(names) for kind, names in sorted(found.items())}
