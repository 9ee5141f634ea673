"""The run folder of a run that names none."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path


def default_folder(script: str = "") -> str:
    """Return `everybit-runs/<time>-<script>`, the same for every rank of one launch.

    Args:
        script: Path or module name; the running program's where empty.
    """
    name = Path(script or sys.argv[0] or "session").stem or "session"
    began = time.localtime(_launch_time_s())
    return f"everybit-runs/{time.strftime('%Y%m%d-%H%M%S', began)}-{name}"


def _launch_time_s() -> float:
    """Return when the launcher started where there are several ranks, else now."""
    if os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1"):
        try:
            stat = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="ascii", errors="replace")
            ticks = int(stat.rpartition(")")[2].split()[19])
            kernel = Path("/proc/stat").read_text(encoding="ascii", errors="replace")
            booted = re.search(r"^btime (\d+)$", kernel, re.MULTILINE)
            if booted is not None:
                # Whole numbers of the kernel's, so that each rank comes to the same second.
                return int(booted[1]) + ticks // os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            pass
    return time.time()
