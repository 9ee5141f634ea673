"""Numbers, texts and the like that a torch file holds beside its tensors, by key path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from everybit.files.reading import read_structure
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from os import PathLike

    from everybit.files.pickles.plain import Plain


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
        structure = read_structure(source)
    return dict(structure.values), structure.values_whole
