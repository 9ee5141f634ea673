"""Numbers, texts and the like that a torch file holds beside its tensors, by key path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from everybit.files.formats.torch_zip import find_root, read_pickle
from everybit.files.pickles.opcodes import interpret
from everybit.files.pickles.plain import MAX_VALUES, Plain, collect_plain
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource
from everybit.files.zips.archive import read_archive

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["MAX_VALUES", "Plain", "archive_values", "plain_values_in", "read_plain_values"]


def read_plain_values(path: str | PathLike[str]) -> tuple[dict[str, Plain], bool]:
    """Return the plain values in dicts, lists and tuples of a file that torch wrote.

    Args:
        path: The file.

    Returns:
        The values by dotted key path, and whether these are all: False where there are too many,
        or objects of other classes, whose insides are not looked into. Empty and True for a file
        that holds no such values.

    Raises:
        PathError: The file cannot be read.
    """
    with ByteSource(Path(path)) as source:
        return plain_values_in(source)


def plain_values_in(source: ByteSource) -> tuple[dict[str, Plain], bool]:
    """Return the plain values of an open file, as `read_plain_values` does."""
    structure = read_structure(source)
    return dict(structure.values), structure.values_whole


def archive_values(source: ByteSource) -> tuple[dict[str, Plain], bool]:
    """Return the plain values of a torch archive; `MalformedError` where it cannot be read."""
    archive = read_archive(source)
    root = find_root(archive.members)
    if root is None:
        return {}, True
    record = next(m for m in archive.members if m.name == f"{root}data.pkl")
    data, _ = read_pickle(source, record)
    return collect_plain(interpret(data))
