"""The run folder of a run that names none."""

from __future__ import annotations

import os
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
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        try:
            stat = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="ascii", errors="replace")
            ticks = int(stat.rpartition(")")[2].split()[19])
            uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
            # Whole seconds: the two clocks are read by each rank at another moment.
            return round(time.time() - uptime_s) + ticks // os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            pass
    return time.time()
