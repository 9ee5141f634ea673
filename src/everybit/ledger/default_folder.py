"""The run folder of a run that names none."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Final

_MAX_IN_A_SECOND: Final = 1000


def default_folder(script: str = "") -> str:
    """Return `everybit-runs/<time>-<script>`, the same for every rank of one launch.

    A process by itself makes the folder: of two runs that start in the same second, one gets
    another name (`-2` behind it), and neither goes on with the other's record.

    Args:
        script: Path or module name; the running program's where empty.
    """
    name = Path(script or sys.argv[0] or "session").stem or "session"
    began = time.localtime(_launch_time_s())
    folder = f"everybit-runs/{time.strftime('%Y%m%d-%H%M%S', began)}-{name}"
    return folder if _is_one_of_several() else _made(folder)


def _made(folder: str) -> str:
    name = folder
    try:
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
        for number in range(2, _MAX_IN_A_SECOND):
            try:
                Path(name).mkdir(mode=0o700)
            except FileExistsError:
                name = f"{folder}-{number}"
            else:
                break
    except OSError:
        pass  # Whoever writes there says why that cannot be.
    return name


def _is_one_of_several() -> bool:
    if _is_launched_as_several():
        return True
    distributed = sys.modules.get("torch.distributed")
    return (
        distributed is not None
        and distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def _is_launched_as_several() -> bool:
    return os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1")


def _launch_time_s() -> float:
    """Return when the launcher started where there are several ranks, else now."""
    if _is_launched_as_several():
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
