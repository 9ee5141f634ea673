"""Damage, or a file that somebody wrote anew on purpose: the latter is never rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.tree import LEAF_BYTES
from everybit.files.damage import MalformedError
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource
from everybit.files.zips.integrity import crc_status
from everybit.files.zips.members import member_crc, unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.seals.manifest import SealedFile

_WRITTEN_ANEW = (
    "most of it differs from what was sealed, and by its own format it is whole: it was written "
    "anew; seal it again, or move it away to get the sealed one back"
)


def ends_within_tensor(sealed: SealedFile, bad: list[int]) -> bool:
    """Return whether what differs is one run of leaves that begins or ends inside a tensor.

    Who writes a model anew writes its tensors whole; a lost or overwritten stretch of the disk
    heeds no tensor.

    Args:
        sealed: The file's entry in the manifest.
        bad: The leaves that differ, in order.
    """
    first, after = bad[0], bad[-1] + 1
    if after - first != len(bad):
        return False
    return any(
        start + LEAF_BYTES <= border * LEAF_BYTES <= end - LEAF_BYTES
        for tensor in sealed.tensors
        for start, end in tensor.byte_ranges
        for border in (first, after)
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
