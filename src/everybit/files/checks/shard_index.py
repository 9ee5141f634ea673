"""The index of a sharded model: which files it needs beside it, and what they hold."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding

INDEX_SUFFIXES: Final = (".safetensors.index.json", ".bin.index.json", ".pt.index.json")
_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_NAME: Final = 255
_MAX_PATH: Final = 1024


def is_index(name: str) -> bool:
    """Return whether a file is an index by its name."""
    return name.endswith(INDEX_SUFFIXES)


def shards_of(path: Path) -> dict[str, list[str]] | None:
    """Return the tensors that an index expects in each shard; None where it is no readable index.

    Names that lead out of the folder are left out.

    Raises:
        PathError: It cannot be opened.
    """
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            return None
        data = source.read(0, source.size)
    shards: dict[str, list[str]] = {}
    try:
        for tensor, shard in json.loads(data)["weight_map"].items():
            if _stays_inside(str(shard)):
                shards.setdefault(str(shard), []).append(tensor)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return dict(sorted(shards.items()))


def check_shard(path: Path, place: str, index: str, expected: list[str]) -> Finding | None:
    """Return the finding for tensors that an index maps to a shard and that it does not hold.

    A shard that cannot be read to its end says nothing here: its own checks tell why.

    Args:
        path: The shard.
        place: Its path relative to the target.
        index: The index's path relative to the target.
        expected: Names of the tensors that the index maps to it.

    Raises:
        PathError: It cannot be opened.
    """
    with ByteSource(path) as source:
        structure = read_structure(source)
    if not structure.format.holds_tensors or structure.damages or structure.given_up:
        return None
    held = {tensor.name for tensor in structure.tensors}
    absent = sorted(set(expected) - held)
    if not absent:
        return None
    more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
    return rule("FIL114").finding(
        f"{place} does not hold {absent[0]}{more}, which {index} places there",
        where=Location(path=place, tensor=absent[0]),
        evidence={
            "listed_by": index,
            "num_expected": len(set(expected)),
            "num_missing": len(absent),
            "missing": absent[:16],
        },
    )


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in path.parts]
    # No file can be called otherwise, and asking for one raises.
    short = sum(sizes) <= _MAX_PATH and max(sizes, default=0) <= _MAX_NAME
    return "\0" not in name and not path.is_absolute() and ".." not in path.parts and short
