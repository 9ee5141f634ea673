"""Damage, or a file that somebody wrote anew on purpose: the latter is never rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.files.damage import MalformedError
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource
from everybit.files.zips.integrity import crc_status
from everybit.files.zips.members import member_crc, unreadable

if TYPE_CHECKING:
    from pathlib import Path

_WRITTEN_ANEW = (
    "most of it differs from what was sealed, and by its own format it is whole: it was written "
    "anew; seal it again, or move it away to get the sealed one back"
)


def why_not_damage(path: Path) -> str:
    """Return why a file that differs in most places is not put back, or "".

    A model that is whole by its own format was most likely trained on and saved again; putting
    back what was sealed would lose it.

    Raises:
        PathError: It cannot be read.
    """
    with ByteSource(path) as source:
        structure = read_structure(source)
        if structure.damages or not structure.tensors:
            return ""
        if not structure.has_checksums:
            return _WRITTEN_ANEW
        for member in structure.members:
            if not member.usable or unreadable(member):
                continue
            try:
                if crc_status(member, member_crc(source, member)) is not None:
                    return ""
            except MalformedError:
                return ""
    return _WRITTEN_ANEW
