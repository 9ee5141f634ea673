"""BLAKE3 on all cores: its threads are started once, and a fork leaves them behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blake3 import blake3

#: The process in which all cores were first asked for.
_started_in: list[int] = []


def are_lost() -> bool:
    """Return whether threads were started before this process was forked: who asks them waits."""
    return bool(_started_in) and _started_in[0] != os.getpid()


def blake3_hasher(*, all_cores: bool) -> blake3:
    """Return a BLAKE3 hasher; on one core, too, where the others are lost.

    Args:
        all_cores: Use them all: faster only where nothing else keeps them busy.
    """
    from blake3 import blake3

    if not all_cores or are_lost():
        return blake3(max_threads=1)
    if not _started_in:
        _started_in.append(os.getpid())
    return blake3(max_threads=blake3.AUTO)
