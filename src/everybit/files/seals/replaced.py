"""A file shorter than its seal: cut, or another file that was written in its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from everybit.core.tree import LEAF_BYTES
from everybit.files.seals.rewritten import CONTAINERS
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from everybit.files.seals.localize import Differences
    from everybit.files.seals.manifest import SealedFile
    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure

#: Formats that a file may seem to change between when it is cut; a cut explains no other change.
_FAMILIES: Final = (
    {FileFormat.ZIP, FileFormat.TORCH_ZIP, FileFormat.DISTCP, FileFormat.NPZ},
    {FileFormat.TAR, FileFormat.TORCH_TAR},
    {FileFormat.PICKLE, FileFormat.TORCH_LEGACY, FileFormat.DCP_METADATA},
    {FileFormat.TEXT, FileFormat.HTML, FileFormat.LFS_POINTER},
)
#: What the head of a cut file can always look like.
_NO_FORMAT: Final = (FileFormat.EMPTY, FileFormat.ZEROS, FileFormat.UNKNOWN)
_MAX_JSON_BYTES: Final = 64 * 1024 * 1024


def is_another_file(
    source: ByteSource,
    sealed: SealedFile,
    structure: Structure,
    differences: Differences,
    name: str,
) -> bool:
    """Return whether a file that is shorter than its seal was replaced rather than cut.

    It was where it is whole by its own format, is of a format that no cut gives, or where nothing
    in it is as it was sealed.
    """
    found = structure.format
    if found in CONTAINERS:
        if not structure.damages:
            return True
    elif name.lower().endswith(".json") and _is_whole_json(source):
        return True
    if found is not sealed.format and FileFormat.UNKNOWN is not sealed.format:
        related = any(found in family and sealed.format in family for family in _FAMILIES)
        if not related and found not in _NO_FORMAT:
            return True
    # All that both have, in whole leaves: a cut leaves what stands before it.
    common = source.size // LEAF_BYTES * LEAF_BYTES
    return bool(common) and not differences.right and differences.ranges == ((0, common),)


def _is_whole_json(source: ByteSource) -> bool:
    if not 0 < source.size <= _MAX_JSON_BYTES:
        return False
    try:
        found = json.loads(source.read(0, source.size))
    except (ValueError, RecursionError):
        return False
    # A cut number is a number still.
    return isinstance(found, dict | list)
