"""The index of a sharded model: which files it needs beside it."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

INDEX_SUFFIXES: Final = (".safetensors.index.json", ".bin.index.json", ".pt.index.json")
_MAX_BYTES: Final = 64 * 1024 * 1024


def is_index(name: str) -> bool:
    """Return whether a file is an index by its name."""
    return name.endswith(INDEX_SUFFIXES)


def shards_of(path: Path) -> list[str] | None:
    """Return the shards that an index lists, sorted; None where it is no readable index.

    Names that lead out of the folder are left out.

    Raises:
        PathError: It cannot be opened.
    """
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            return None
        data = source.read(0, source.size)
    try:
        weights = json.loads(data)["weight_map"]
        shards = {str(shard) for shard in weights.values()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return sorted(shard for shard in shards if _stays_inside(shard))


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return "\0" not in name and not path.is_absolute() and ".." not in path.parts
