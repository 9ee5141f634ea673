"""Which process of how many this is, as launchers tell it in the environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from everybit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Larger numbers are a mistake, and no launcher gives them.
_MAX: Final = 2**31 - 1
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")


def rank_and_world(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the rank and the number of ranks from `RANK` and `WORLD_SIZE`.

    A variable that is not set, or empty, is as if there were one process: rank 0 of 1.

    Args:
        environ: The environment, `os.environ` as a rule.

    Raises:
        UsageError: One is no whole number or out of range; names it.

    >>> rank_and_world({"RANK": "3", "WORLD_SIZE": "8"}), rank_and_world({})
    ((3, 8), (0, 1))
    """
    rank = _whole(environ, "RANK", least=0, default=0)
    world_size = _whole(environ, "WORLD_SIZE", least=1, default=1)
    if rank >= world_size:
        told = environ.get("WORLD_SIZE", "").strip()
        raise UsageError(
            f"RANK={rank} is no rank of {world_size}",
            where="environment",
            todo=f"ranks of WORLD_SIZE={world_size} go from 0 to {world_size - 1}"
            if told
            else "set WORLD_SIZE too, or unset RANK",
        )
    return rank, world_size


def _whole(environ: Mapping[str, str], name: str, *, least: int, default: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or not least <= value <= _MAX:
        raise UsageError(
            f"{name}={text[:40]!r} is not a whole number of {least} or more",
            where="environment",
            todo=f"let the launcher set {name}, or unset it",
        )
    return value
